// Fork and join for arithmetic: a fixed set of threads that compute one operation at a time together.
//
// A decode step forks about two hundred times, for operations of tens of microseconds, so a fork must cost
// less than one microsecond. Threads spin for a moment between operations and then park, so that an idle
// server uses no CPU time. Other programs may use the machine too, so threads take work in pieces, and the
// caller waits only for threads that have a piece. If the operating system delays a thread because its
// processor is busy, the pool continues without this thread. Owned by CpuBackend; only the engine thread
// calls for_each_piece(), and it computes pieces as thread 0.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

#include "kernels/cpu/threads/piece_schedule.h"
#include "kernels/cpu/threads/topology.h"

namespace hearth {

/// The number of physical cores this process may use, at least 1. SMT siblings count once; cores less than
/// half as fast as the fastest do not count; cpusets and cgroup quotas are respected. A quota of 1.5 CPUs
/// gives two threads, the last of which pauses while the process has used more than its quota.
int default_thread_count();

/// Returns how many threads can use a quota of `quota` CPUs, at least 1. A fraction of less than 0.25 CPUs
/// gets no thread.
int threads_within(double quota);

class ThreadPool {
 public:
  /// Starts n_threads - 1 threads; the caller of for_each_piece() is thread 0. REQUIRES: n_threads >= 1.
  /// Throws std::system_error if the system grants no more threads. quota: how many CPUs the process may use
  /// on average, 0 for no limit. With a quota, each started thread t with t + 1 > quota pauses whenever the
  /// process has used more than its quota.
  explicit ThreadPool(int n_threads, double quota = cgroup_cpu_limit());
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int n_threads() const { return static_cast<int>(threads_.size()) + 1; }

  /// Whether threads run on cores of unequal speed. If so, the last pieces of work should be small.
  bool speeds_differ() const { return speeds_differ_; }

  /// quota(): the quota given to the constructor. exceeds_quota(): whether the pool has more threads than the
  /// quota has CPUs.
  double quota() const { return quota_; }
  bool exceeds_quota() const;

  /// Binds the calling thread (the one that will call for_each_piece()) and every thread of the pool to a
  /// processor of its own. Does so only if the pool has a thread for each processor that the process may use,
  /// for each core, or for each fast core. Linux places the threads of pools of other sizes, because Linux
  /// takes other programs into account. For example, if two pools of half the size were bound, both would use
  /// the same cores. Threads that the calling thread starts later inherit its processor, so call this after
  /// starting all threads. Returns whether threads were bound; it is no error if the system refuses.
  bool bind_threads();

  /// Announces that an operation will probably start within kAwakeSeconds, because a device is computing the
  /// CPU's input. For kAwakeSeconds, threads poll instead of parking, so that no thread has to be woken. Does
  /// nothing if the pool has more threads than there are processors, or than the quota has CPUs. Cheap;
  /// called by the engine thread.
  void expect_work() noexcept;
  /// This is longer than a GPU takes for a layer of any model.
  static constexpr double kAwakeSeconds = 2e-3;
  /// Returns the number of sleeping threads.
  int n_parked() const { return n_parked_.load(std::memory_order_relaxed); }

  /// Calls body(int64_t begin, int64_t end, int thread) for consecutive pieces of at most `grain` that cover
  /// [0, n). Each piece goes to the next free thread; thread is in [0, n_threads()). Returns when all calls
  /// have returned; everything they wrote is visible then. A single piece runs on the calling thread without
  /// a fork. body must not call the pool, and must not throw, because an exception in a fork ends the
  /// program. Allocates no memory, and neither should body.
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
    share(take_pieces);
  }

  /// Calls body(int64_t begin, int64_t end, int thread) for n_threads() equal parts of neighboring units that
  /// cover [0, n). Thread t computes part t, and then any part that no thread has begun, because the
  /// operating system may delay a thread. All else is as in for_each_piece(). Used for short operations,
  /// because each thread reads one long run of memory without interruption. The disadvantage is that all
  /// threads wait for the slowest one.
  template <class Body>
  void for_each_part(int64_t n, Body&& body) {
    const int n_parts = n_threads();
    if (n_parts > kMaxParts) return for_each_piece(n, (n + n_parts - 1) / n_parts, body);
    using Plain = std::remove_reference_t<Body>;
    const auto take_parts = [&, n_parts](int thread) {
      for (int i = 0; i < n_parts; ++i) {
        const int part = thread + i < n_parts ? thread + i : thread + i - n_parts;
        const int64_t begin = n * part / n_parts, end = n * (part + 1) / n_parts;
        if (begin < end && claim(part)) static_cast<Plain&>(body)(begin, end, thread);
      }
    };
    claimed_.store(0, std::memory_order_relaxed);
    if (n <= 1 || threads_.empty()) {
      take_parts(0);
      return;
    }
    share(take_parts);
  }

  /// Like for_each_piece(), but pieces are large at first, up to `most`, and shrink to 1 at the end, so that
  /// no thread holds up the others for long (kernels/cpu/threads/piece_schedule.h). The piece boundaries
  /// depend only on n, `most` and the number of threads. With one thread there is one piece.
  template <class Body>
  void for_each_shrinking_piece(int64_t n, int64_t most, Body&& body) {
    using Plain = std::remove_reference_t<Body>;
    if (threads_.empty() || n <= 1) {
      if (n > 0) static_cast<Plain&>(body)(int64_t{0}, n, 0);
      return;
    }
    const auto take_pieces = [&, n_threads = n_threads()](int thread) {
      int64_t begin = next_piece_.load(std::memory_order_relaxed);
      while (begin < n) {
        const int64_t end = begin + next_piece(n - begin, n_threads, most);
        if (!next_piece_.compare_exchange_weak(begin, end, std::memory_order_relaxed)) continue;
        static_cast<Plain&>(body)(begin, end, thread);
        begin = next_piece_.load(std::memory_order_relaxed);
      }
    };
    next_piece_.store(0, std::memory_order_relaxed);
    share(take_pieces);
  }

 private:
  using Call = void (*)(const void* context, int thread) noexcept;

  /// The number of parts for which claimed_ has bits.
  static constexpr int kMaxParts = 64;
  /// Claims a part. Returns whether the calling thread is the first to claim it, and so must compute it.
  bool claim(int part) {
    const uint64_t bit = uint64_t{1} << part;
    return (claimed_.load(std::memory_order_relaxed) & bit) == 0 &&
           (claimed_.fetch_or(bit, std::memory_order_relaxed) & bit) == 0;
  }

  /// Calls take(thread) on the calling thread, and on all threads of the pool that join before the calling
  /// thread's take() returns.
  template <class Take>
  void share(const Take& take) {
    share([](const void* context, int thread) noexcept { (*static_cast<const Take*>(context))(thread); },
          &take);
  }
  void share(Call call, const void* context) noexcept;
  void work(int thread) noexcept;
  bool enter() noexcept;
  void leave() noexcept;
  void stop() noexcept;

  // round_ has its own cache line, because every thread polls it while other threads write the other members.
  alignas(64) std::atomic<uint32_t> round_{0};  // incremented for each operation; threads wait for it to
                                                // change
  // Controls access to call_ and context_. While gate_ is 0, the caller may write them. Otherwise the threads
  // that gate_ counts may read them. Top bit: threads may still enter. Other bits: the number of threads
  // inside.
  alignas(64) std::atomic<uint32_t> gate_{0};
  alignas(64) std::atomic<int64_t> next_piece_{0};
  alignas(64) std::atomic<int64_t> awake_until_{0};  // steady clock time until which threads keep polling
  std::atomic<int> n_parked_{0};
  alignas(64) std::atomic<uint64_t> claimed_{0};  // a bit for each part that a thread has begun
  alignas(64) Call call_ = nullptr;
  const void* context_ = nullptr;
  std::atomic<bool> stopping_{false};
  bool may_spin_ = true;
  bool speeds_differ_ = false;
  double quota_ = 0.0;
  std::vector<std::thread> threads_;
};

}  // namespace hearth
