#include "base/threads.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#endif
#if defined(__unix__) || defined(__APPLE__)
#include <dlfcn.h>
#include <pthread.h>
#endif

namespace trellis {
namespace {

int available_cores() {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
  const int cores = int(std::thread::hardware_concurrency());
  return cores > 0 ? cores : 1;
}

constexpr int most_threads = 1024;  // as trellis.chain.runtime has it

int initial_threads() {
  const char* wanted = std::getenv("TRELLIS_NUM_THREADS");
  const int count = wanted ? std::atoi(wanted) : 0;
  return count > 0 ? std::min(count, most_threads) : available_cores();
}

// Numbered tasks that threads take one after another; the first exception is thrown when all is done.
class Job {
 public:
  Job(int64_t count, const std::function<void(int64_t)>& task) : count_(count), task_(task) {}

  void work() {
    for (int64_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < count_;) {
      try {
        task_(i);
      } catch (...) {
        std::lock_guard<std::mutex> lock(mutex_);
        if (!error_) error_ = std::current_exception();
      }
    }
  }

  void finish() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  const int64_t count_;
  const std::function<void(int64_t)>& task_;
  std::atomic<int64_t> next_{0};
  std::mutex mutex_;
  std::exception_ptr error_;
};

// The workers live as long as the process. Between jobs they watch for the next one for a moment before they sleep,
// since the calls of a training step follow each other closely and waking a thread costs as much as a small batch.
class Pool {
 public:
  void run(int64_t count, int threads, const std::function<void(int64_t)>& task) {
    std::unique_lock<std::mutex> one_job(job_mutex_, std::try_to_lock);
    if (!one_job.owns_lock()) return run_here(count, task);  // another thread of the program is using the pool
    grow(threads - 1);
    Job job(count, task);
    job_ = &job;
    const int helpers = int(workers_.size()) < threads - 1 ? int(workers_.size()) : threads - 1;
    seats_.store(helpers);
    {
      std::lock_guard<std::mutex> lock(wake_mutex_);
      generation_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    job.work();
    // No one may join any more; wait for those who did, not for those who are still waking up. A helper counts itself
    // in before it looks for a seat, so that it is either seen here or sees no seat.
    seats_.store(0);
    while (active_.load()) std::this_thread::yield();
    job.finish();
  }

  static void run_here(int64_t count, const std::function<void(int64_t)>& task) {
    for (int64_t i = 0; i < count; ++i) task(i);
  }

 private:
  void grow(int wanted) {
    while (int(workers_.size()) < wanted) {
      const uint64_t seen = generation_.load();
      workers_.emplace_back([this, seen] { serve(seen); });
      workers_.back().detach();
    }
  }

  void serve(uint64_t seen) {
    for (;;) {
      const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(100);
      while (generation_.load(std::memory_order_acquire) == seen && std::chrono::steady_clock::now() < until)
        std::this_thread::yield();
      if (generation_.load(std::memory_order_acquire) == seen) {
        std::unique_lock<std::mutex> lock(wake_mutex_);
        wake_.wait(lock, [&] { return generation_.load(std::memory_order_acquire) != seen; });
      }
      seen = generation_.load(std::memory_order_acquire);
      active_.fetch_add(1);
      int seats = seats_.load();
      while (seats > 0 && !seats_.compare_exchange_weak(seats, seats - 1)) {
      }
      if (seats > 0) job_->work();
      active_.fetch_sub(1);
    }
  }

  std::mutex job_mutex_, wake_mutex_;
  std::condition_variable wake_;
  std::vector<std::thread> workers_;
  std::atomic<uint64_t> generation_{0};
  std::atomic<int> seats_{0}, active_{0};
  Job* job_ = nullptr;
};

// Never destroyed: detached workers may outlive static destruction. A forked child has none of its parent's threads,
// so it starts with its own pool.
Pool* pool = nullptr;
std::atomic<int> thread_count{0};

Pool& the_pool() {
  static std::once_flag once;
  std::call_once(once, [] {
    pool = new Pool;
#if defined(__unix__) || defined(__APPLE__)
    pthread_atfork(nullptr, nullptr, [] { pool = new Pool; });
#endif
  });
  return *pool;
}

// GNU OpenMP's way to run something on a team of threads; null if the process does not have it.
using RunTeam = void (*)(void (*)(void*), void*, unsigned threads, unsigned flags);

RunTeam team_runner() {
#if defined(__unix__)
  return reinterpret_cast<RunTeam>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
#else
  return nullptr;
#endif
}

}  // namespace

int num_threads() {
  int count = thread_count.load();
  if (count == 0) thread_count.store(count = initial_threads());
  return count;
}

void set_num_threads(int count) { thread_count.store(count); }

void run_tasks(int64_t count, int threads, const std::function<void(int64_t)>& task) {
  if (threads <= 1 || count <= 1) return Pool::run_here(count, task);
  the_pool().run(count, threads, task);
}

void run_beside_torch(int64_t count, int threads, const std::function<void(int64_t)>& task) {
  static const RunTeam run_team = team_runner();
  if (!run_team || threads <= 1 || count <= 1) return run_tasks(count, threads, task);
  Job job(count, task);
  run_team([](void* data) { static_cast<Job*>(data)->work(); }, &job, unsigned(threads), 0);
  job.finish();
}

}  // namespace trellis
