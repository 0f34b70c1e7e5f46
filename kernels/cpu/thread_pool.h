// Fork and join for the arithmetic: a fixed set of threads that split one operation at a time.
//
// A decode step forks some two hundred times, each for tens of microseconds, so a fork must cost about one:
// workers spin for a moment between operations, then park, so that an idle server uses no CPU.
// Owned by CpuBackend; run() is called by the engine thread only, which works along as worker 0.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace hearth {

/// Physical cores this process may use: SMT siblings counted once, cpusets and cgroup quotas respected. At
/// least 1.
int default_thread_count();

class ThreadPool {
 public:
  /// Starts n_threads - 1 workers; the caller of run() is the other one. REQUIRES: n_threads >= 1. Throws
  /// std::system_error if the system grants no more threads.
  explicit ThreadPool(int n_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int n_threads() const { return static_cast<int>(workers_.size()) + 1; }

  /// Gives the calling thread (from now on the one that calls run()) and every worker a processor of its own,
  /// if the pool fills the processors it may use; a smaller pool is left to the kernel, which knows what else
  /// runs, where two half-size pools would bind themselves to the same cores. Threads that the calling thread
  /// starts later inherit its processor, so call it where no more are started. Refusal by the system is no
  /// error. Returns whether threads were bound.
  bool bind_threads();

  /// Calls body(int worker) once on each thread, worker in [0, n_threads()), and returns when all have
  /// returned. body must not throw and must not call run(). No allocation.
  template <class Body>
  void run(Body&& body) {
    using Plain = std::remove_reference_t<Body>;
    fork_join([](void* context, int worker) { (*static_cast<Plain*>(context))(worker); },
              const_cast<std::remove_const_t<Plain>*>(&body));
  }

  /// Calls body(int64_t begin, int64_t end, int worker) for consecutive pieces of at most `grain` that cover
  /// [0, n), each handed to the thread that is free next: a thread that the kernel took away for a while then
  /// holds up one piece, not its share of the whole. One piece runs on the calling thread without a fork.
  template <class Body>
  void for_each_chunk(int64_t n, int64_t grain, Body&& body) {
    if (n <= 0) return;
    if (n <= grain || workers_.empty()) {
      for (int64_t begin = 0; begin < n; begin += grain)
        body(begin, begin + grain < n ? begin + grain : n, 0);
      return;
    }
    next_chunk_.store(0, std::memory_order_relaxed);
    run([&](int worker) {
      for (;;) {
        const int64_t begin = next_chunk_.fetch_add(1, std::memory_order_relaxed) * grain;
        if (begin >= n) return;
        body(begin, begin + grain < n ? begin + grain : n, worker);
      }
    });
  }

 private:
  using Call = void (*)(void* context, int worker);

  void fork_join(Call call, void* context) noexcept;
  void work(int worker) noexcept;
  void stop() noexcept;

  // Each on its own cache line: every worker polls round_ while others write the rest.
  alignas(64) std::atomic<uint32_t> round_{0};      // one more for each fork; workers wait for it to change
  alignas(64) std::atomic<int32_t> unfinished_{0};  // workers still in this round
  alignas(64) std::atomic<int64_t> next_chunk_{0};
  alignas(64) Call call_ = nullptr;  // written before round_ is raised, read after it was seen raised
  void* context_ = nullptr;
  bool stopping_ = false;
  bool may_spin_ = true;
  std::vector<std::thread> workers_;
};

}  // namespace hearth
