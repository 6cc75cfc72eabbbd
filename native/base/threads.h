// A pool of threads for numbered tasks. What a task computes must depend on its number only, never on which thread
// runs it or when: then results are the same bit for bit with any number of threads.
#pragma once

#include <cstdint>
#include <functional>

namespace trellis {

int num_threads();
void set_num_threads(int count);

// Runs task(0) .. task(count - 1), on up to `threads` threads, the calling one among them; on fewer if the system does
// not start so many. An exception of a task is thrown again here, and not all other tasks may have been run then. Each thread begins with its own share of the tasks, the same in every call: what works on the
// same data should number its tasks in the same order. What a task itself runs stays on its thread.
void run_tasks(int64_t count, int threads, const std::function<void(int64_t)>& task);

// Inside a task: which of the threads of this call of run_tasks runs it, from 0. Only for memory that belongs to the call:
// tasks of another call, which runs at the same time, may have the same number.
int task_thread();

// The same on the threads of torch's OpenMP runtime if that is in the process. They wait for work by watching for it,
// as ours do: between torch's own operations, two pools would keep each other from the cores.
void run_beside_torch(int64_t count, int threads, const std::function<void(int64_t)>& task);

// Long computations ask now and then whether they should stop, for Ctrl-C: `stop_if_asked` throws `Stopped` then. It does
// so only while the thread that began the computation has a `Stoppable`, since not everything can be stopped halfway; at
// most every tenth of a second that thread asks `check`, which the bindings give.
struct Stopped {};
void set_stop_check(bool (*check)());
void stop_if_asked();

class Stoppable {
 public:
  Stoppable();
  ~Stoppable();
  Stoppable(const Stoppable&) = delete;
};

}  // namespace trellis
