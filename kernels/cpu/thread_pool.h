// Fork and join for the arithmetic: a fixed set of threads that compute one operation at a time together.
//
// A decode step forks some two hundred times, each for tens of microseconds, so a fork must cost less than
// one: threads spin for a moment between operations, then park, so that an idle server uses no CPU. The
// machine is rarely ours alone: work is handed out in pieces, and the caller waits only for threads that hold
// one. A thread the kernel is slow to run (its processor is taken) thus costs its help, not a wait for it.
// Owned by CpuBackend; for_each_piece() is called by the engine thread only, which works along as thread 0.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

namespace hearth {

/// Physical cores this process may use: SMT siblings counted once, cpusets and cgroup quotas respected. At
/// least 1.
int default_thread_count();

class ThreadPool {
 public:
  /// Starts n_threads - 1 threads; the caller of for_each_piece() is the other one. REQUIRES: n_threads >= 1.
  /// Throws std::system_error if the system grants no more threads.
  explicit ThreadPool(int n_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int n_threads() const { return static_cast<int>(threads_.size()) + 1; }

  /// Gives the calling thread (from now on the one that calls for_each_piece()) and every thread a processor
  /// of its own, if the pool fills the processors it may use; a smaller pool is left to the kernel, which
  /// knows what else runs, where two half-size pools would bind themselves to the same cores. Threads that
  /// the calling thread starts later inherit its processor, so call it where no more are started. Refusal by
  /// the system is no error. Returns whether threads were bound.
  bool bind_threads();

  /// Calls body(int64_t begin, int64_t end, int thread) for consecutive pieces of at most `grain` that cover
  /// [0, n), each handed to the thread that is free next, thread in [0, n_threads()); returns when all have
  /// returned. What the pieces wrote is visible then. One piece runs on the calling thread without a fork.
  /// body must not throw and must not call the pool. No allocation.
  template <class Body>
  void for_each_piece(int64_t n, int64_t grain, Body&& body) {
    using Plain = std::remove_reference_t<Body>;
    const auto take_pieces = [&](int thread) {
      for (;;) {
        const int64_t begin = next_piece_.fetch_add(1, std::memory_order_relaxed) * grain;
        if (begin >= n) return;
        static_cast<Plain&>(body)(begin, begin + grain < n ? begin + grain : n, thread);
      }
    };
    next_piece_.store(0, std::memory_order_relaxed);
    if (n <= grain || threads_.empty()) {
      take_pieces(0);
      return;
    }
    using TakePieces = decltype(take_pieces);
    share([](const void* context, int thread) { (*static_cast<const TakePieces*>(context))(thread); },
          &take_pieces);
  }

 private:
  using Call = void (*)(const void* context, int thread);

  void share(Call call, const void* context) noexcept;
  void work(int thread) noexcept;
  bool enter() noexcept;
  void leave() noexcept;
  void stop() noexcept;

  // Each on its own cache line: every thread polls round_ while others write the rest.
  alignas(64) std::atomic<uint32_t> round_{0};  // one more for each operation; threads wait for it to change
  // Who may touch call_ and context_: the caller while it is 0, else whoever it counts. Top bit: threads may
  // still enter. The other bits: threads inside.
  alignas(64) std::atomic<uint32_t> gate_{0};
  alignas(64) std::atomic<int64_t> next_piece_{0};
  alignas(64) Call call_ = nullptr;
  const void* context_ = nullptr;
  std::atomic<bool> stopping_{false};
  bool may_spin_ = true;
  std::vector<std::thread> threads_;
};

}  // namespace hearth
