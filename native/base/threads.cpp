#include "base/threads.h"

#include "base/cores.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#if defined(__unix__) || defined(__APPLE__)
#include <dlfcn.h>
#include <pthread.h>
#endif

namespace trellis {
namespace {

constexpr int most_threads = 1024;  // as trellis.chain.runtime has it

int initial_threads() {
  const char* wanted = std::getenv("TRELLIS_NUM_THREADS");
  const int count = wanted ? std::atoi(wanted) : 0;
  return count > 0 ? std::min(count, most_threads) : available_cores();
}

// Which thread of a job this is, while it works: what a task begins, its thread does alone.
constexpr int outside = -1;
thread_local int own_number = outside;
class Job;
thread_local Job* own_job = nullptr;

// For `stop_if_asked`.
using Clock = std::chrono::steady_clock;
std::atomic<bool (*)()> stop_check{nullptr};
thread_local bool stoppable = false;
thread_local Clock::time_point next_check;

// Numbered tasks. Thread k of n begins with the k-th of n equal ranges of them, and helps the others when that is done:
// in call after call the same data then meet the same core, which has them in its caches. Caches of far cores are as
// slow as memory. After an exception nothing new is begun, and the first one is thrown when all threads are done.
class Job {
 public:
  Job(int64_t count, int threads, const std::function<void(int64_t)>& task)
      : ranges_(size_t(threads)), task_(task), stoppable_(stoppable) {
    for (int k = 0; k < threads; ++k) {
      ranges_[size_t(k)].next.store(count * k / threads, std::memory_order_relaxed);
      ranges_[size_t(k)].end = count * (k + 1) / threads;
    }
  }

  int threads() const { return int(ranges_.size()); }

  void work(int thread) {
    own_number = thread, own_job = this;
    for (int i = 0; i < threads(); ++i) work_in(ranges_[size_t((thread + i) % threads())]);
    own_number = outside, own_job = nullptr;
  }

  // The calling thread asks for all; the others learn it from the exception.
  void stop_if_asked() {
    if (stoppable_ && failed_.load(std::memory_order_relaxed)) throw Stopped();
  }

  // What the calling thread does while others work on.
  void wait() {
    std::this_thread::yield();
    run([] { trellis::stop_if_asked(); });
  }

  void finish() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  struct alignas(64) Range {
    std::atomic<int64_t> next{0};
    int64_t end = 0;
  };

  void work_in(Range& range) {
    for (int64_t i; !failed_.load(std::memory_order_relaxed) &&
                    (i = range.next.fetch_add(1, std::memory_order_relaxed)) < range.end;)
      run([&] {
        trellis::stop_if_asked();
        task_(i);
      });
  }

  template <typename F>
  void run(F f) {
    try {
      f();
    } catch (...) {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!error_) error_ = std::current_exception();
      failed_.store(true, std::memory_order_relaxed);
    }
  }

  std::vector<Range> ranges_;
  const std::function<void(int64_t)>& task_;
  const bool stoppable_;
  std::mutex mutex_;
  std::atomic<bool> failed_{false};
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
    Job job(count, std::min(threads, workers_ + 1), task);
    job_ = &job;
    joining_.store(job.threads());
    {
      std::lock_guard<std::mutex> lock(wake_mutex_);
      generation_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    job.work(0);
    // No one may join any more; wait for those who did, not for those who are still waking up. A helper counts itself
    // in before it looks whether it may join, so that it is either seen here or sees that it may not.
    joining_.store(0);
    while (active_.load()) job.wait();
    job.finish();
  }

  static void run_here(int64_t count, const std::function<void(int64_t)>& task) {
    for (int64_t i = 0; i < count; ++i) {
      stop_if_asked();
      task(i);
    }
  }

 private:
  // Where the system starts no more threads, work goes on with those that there are.
  void grow(int wanted) {
    try {
      for (; workers_ < wanted; ++workers_) {
        const uint64_t seen = generation_.load();
        std::thread([this, number = workers_ + 1, seen] { serve(number, seen); }).detach();
      }
    } catch (const std::system_error&) {
    }
  }

  // Worker `number` is thread `number` of every job that has so many; thread 0 is the one that calls.
  void serve(int number, uint64_t seen) {
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
      if (number < joining_.load()) job_->work(number);
      active_.fetch_sub(1);
    }
  }

  std::mutex job_mutex_, wake_mutex_;
  std::condition_variable wake_;
  int workers_ = 0;
  std::atomic<uint64_t> generation_{0};
  std::atomic<int> joining_{0}, active_{0};  // threads below the first number may join; those that did
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

// GNU OpenMP's way to run something on a team of threads, if the process has it.
struct Team {
  void (*run)(void (*)(void*), void*, unsigned threads, unsigned flags) = nullptr;
  int (*number)() = nullptr;  // of the thread that asks

  Team() {
#if defined(__unix__)
    run = reinterpret_cast<decltype(run)>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
    number = reinterpret_cast<decltype(number)>(dlsym(RTLD_DEFAULT, "omp_get_thread_num"));
#endif
  }
};

}  // namespace

int num_threads() {
  int count = thread_count.load();
  if (count == 0) thread_count.store(count = initial_threads());
  return count;
}

void set_num_threads(int count) { thread_count.store(count); }

void set_stop_check(bool (*check)()) { stop_check.store(check); }

Stoppable::Stoppable() {
  stoppable = true;
  next_check = Clock::now() + std::chrono::milliseconds(100);
}

Stoppable::~Stoppable() { stoppable = false; }

void stop_if_asked() {
  if (own_job) own_job->stop_if_asked();
  if (!stoppable || Clock::now() < next_check) return;
  next_check = Clock::now() + std::chrono::milliseconds(100);
  const auto check = stop_check.load();
  if (check && check()) throw Stopped();
}

int task_thread() { return own_number == outside ? 0 : own_number; }

void run_tasks(int64_t count, int threads, const std::function<void(int64_t)>& task) {
  if (threads <= 1 || count <= 1 || own_number != outside) return Pool::run_here(count, task);
  the_pool().run(count, int(std::min<int64_t>(threads, count)), task);
}

void run_beside_torch(int64_t count, int threads, const std::function<void(int64_t)>& task) {
  static const Team team;
  if (!team.run || !team.number || threads <= 1 || count <= 1 || own_number != outside)
    return run_tasks(count, threads, task);
  Job job(count, int(std::min<int64_t>(threads, count)), task);
  const auto work = [](void* data) { static_cast<Job*>(data)->work(team.number()); };
  team.run(work, &job, unsigned(job.threads()), 0);
  job.finish();
}

}  // namespace trellis
