// Implements ThreadPool: threads that spin, park, and share operations.
#include "kernels/cpu/threads/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <ctime>

#include "kernels/base/pause.h"
#include "kernels/cpu/threads/topology.h"

namespace hearth {
namespace {

// The time that a thread polls before it parks. The operations of a step are 1 to 20 microseconds apart.
// Steps, between which tokens are sampled and published, are about 50 microseconds apart. So a thread that
// polls this long sleeps only when the server is idle. Waking a parked thread takes 5 to 50 microseconds.
constexpr std::chrono::microseconds kSpinTime{100};
// After polling this long, a thread yields its processor between polls, because the thread that it waits for
// may be waiting for the same processor. A yield costs a third of a microsecond if no other thread runs.
constexpr std::chrono::microseconds kPoliteAfter{10};

// Polls between two reads of the clock. A pause takes 40 to 140 cycles, and a read of the clock takes about
// as long as a pause.
constexpr int kPollsPerClock = 16;

// The smallest part of a processor that is worth a thread.
constexpr double kLeastShare = 0.25;
// The time that a thread without a whole CPU of the quota (see Pace) works between two checks of the
// process's usage. It is short compared with the system's quota periods of 100 ms, and long compared with the
// (at most) 50 microseconds that waking a pausing thread takes.
constexpr std::chrono::milliseconds kTurn{5};
// The longest pause. It is limited because the pool's destructor waits for pausing threads.
constexpr std::chrono::milliseconds kLongestRest{100};
// The lower limit of Pace::share_. It lets every thread work some of the time if other threads leave part of
// the quota unused.
constexpr double kLeastPace = 0.05;

constexpr uint32_t kOpen = uint32_t{1} << 31;

using SpinClock = std::chrono::steady_clock;

/// Waits until `value` is no longer `old`. If `may_spin`, it first polls for kSpinTime or until
/// `awake_until`, whichever is later. Then it sleeps. `parked` counts the sleeping threads.
void wait_while_equal(const std::atomic<uint32_t>& value, uint32_t old, bool may_spin,
                      const std::atomic<SpinClock::rep>& awake_until, std::atomic<int>& parked) noexcept {
  if (may_spin) {
    const SpinClock::time_point start = SpinClock::now();
    SpinClock::duration waited{};
    const auto polls_on = [&] {
      return waited < kSpinTime ||
             (start + waited).time_since_epoch().count() < awake_until.load(std::memory_order_relaxed);
    };
    for (; polls_on(); waited = SpinClock::now() - start) {
      for (int i = 0; i < kPollsPerClock; ++i) {
        if (value.load(std::memory_order_acquire) != old) return;
        pause_in_wait();
      }
      if (waited > kPoliteAfter) sched_yield();
    }
  }
  parked.fetch_add(1, std::memory_order_relaxed);
  value.wait(old, std::memory_order_acquire);
  parked.fetch_sub(1, std::memory_order_relaxed);
}

/// Keeps the process within its quota. The quota gives whole CPUs to the first threads. Each other thread
/// pauses whenever the process has exceeded its quota. Otherwise the system would stop a thread in the middle
/// of a piece, and all other threads would wait for it until the quota's next period.
class Pace {
 public:
  /// quota: how many CPUs the process may use, or 0 for no limit. Threads 0 to thread - 1 take one CPU each.
  /// A thread with a whole CPU never pauses and never reads the clock.
  Pace(double quota, int thread)
      : quota_(quota), share_(quota > 0.0 ? std::clamp(quota - thread, kLeastPace, 1.0) : 1.0) {}
  /// Called between operations.
  void rest_if_due() {
    if (share_ >= 1.0 || Clock::now() - looked_ < kTurn) return;
    look();
    if (debt_ <= Seconds(0)) return;
    // While this thread rests, the other threads keep using the quota. So a second of rest reduces the debt
    // by only share_ seconds.
    std::this_thread::sleep_for(std::min<Seconds>(debt_ / share_, kLongestRest));
    look();
  }

 private:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;

  /// Adds to the debt the processor time that the process has used beyond its quota since the last check.
  void look() {
    const Clock::time_point now = Clock::now();
    const Seconds used = process_time();
    debt_ = std::max<Seconds>(debt_ + (used - used_) - quota_ * Seconds(now - looked_), -kTurn);
    looked_ = now;
    used_ = used;
  }
  /// The processor time that all threads of the process have used.
  static Seconds process_time() {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  }

  const double quota_, share_;
  Clock::time_point looked_ = Clock::now();
  Seconds used_ = share_ < 1.0 ? process_time() : Seconds(0);
  Seconds debt_{0};
};

/// Binds a thread to one CPU. Returns false if the system refuses.
bool bind(pthread_t thread, int cpu) {
  cpu_set_t set;
  if (cpu >= CPU_SETSIZE) return false;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(cpu), &set);
  return pthread_setaffinity_np(thread, sizeof set, &set) == 0;
}

/// Returns a CPU for each of n_threads threads. Tries one CPU per fast core, then one CPU per core, then all
/// CPUs, and returns the first of these sets that has exactly n_threads CPUs. Returns an empty list if none
/// of them does.
std::vector<int> places_of(int n_threads) {
  const std::vector<int> allowed = allowed_cpus();
  for (std::vector<int> places : {one_cpu_per_core(fast_cpus(allowed)), one_cpu_per_core(allowed), allowed}) {
    if (places.size() == static_cast<size_t>(n_threads)) return places;
  }
  return {};
}

}  // namespace

int threads_within(double quota) {
  const int whole = static_cast<int>(std::min(quota, 1e6));  // the file may contain any number
  return std::max(1, quota - whole >= kLeastShare ? whole + 1 : whole);
}

int default_thread_count() {
  const int cores = static_cast<int>(one_cpu_per_core(fast_cpus(allowed_cpus())).size());
  const double quota = cgroup_cpu_limit();
  return quota == 0.0 ? cores : std::min(cores, threads_within(quota));
}

ThreadPool::ThreadPool(int n_threads, double quota) : quota_(quota) {
  assert(n_threads >= 1);
  // If there are more threads than processors, a thread that spins could occupy the processor that the
  // awaited thread needs.
  may_spin_ = n_threads <= static_cast<int>(allowed_cpus().size());
  const std::vector<int> places = places_of(n_threads);
  speeds_differ_ = hearth::speeds_differ(places.empty() ? allowed_cpus() : places);
  threads_.reserve(static_cast<size_t>(n_threads - 1));
  try {
    for (int thread = 1; thread < n_threads; ++thread) {
      threads_.emplace_back([this, thread] { work(thread); });
    }
  } catch (...) {
    stop();  // otherwise the threads already started would wait forever
    throw;
  }
}

void ThreadPool::expect_work() noexcept {
  if (!may_spin_ || exceeds_quota()) return;
  const auto until = SpinClock::now() + std::chrono::duration_cast<SpinClock::duration>(
                                            std::chrono::duration<double>(kAwakeSeconds));
  awake_until_.store(until.time_since_epoch().count(), std::memory_order_relaxed);
}

bool ThreadPool::exceeds_quota() const { return quota_ > 0.0 && n_threads() > quota_; }

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() noexcept {
  stopping_.store(true, std::memory_order_relaxed);  // published by the new round
  round_.fetch_add(1, std::memory_order_seq_cst);
  round_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool ThreadPool::bind_threads() {
  const std::vector<int> places = places_of(n_threads());
  if (places.empty()) return false;
  bool bound = bind(pthread_self(), places[0]);
  for (size_t i = 0; i < threads_.size(); ++i) bound &= bind(threads_[i].native_handle(), places[i + 1]);
  return bound;
}

void ThreadPool::share(Call call, const void* context) noexcept {
  // 1. The gate is closed, and no thread is inside it. Write the call, open the gate and wake parked threads.
  // Sequential consistency ensures that a thread that is about to sleep either sees the new round or is
  // woken.
  call_ = call;
  context_ = context;
  gate_.store(kOpen, std::memory_order_release);
  round_.fetch_add(1, std::memory_order_seq_cst);
  round_.notify_all();
  // 2. Compute pieces until none is left.
  call(context, 0);
  // 3. Close the gate and wait until the threads inside have finished their pieces.
  uint32_t inside = gate_.fetch_and(~kOpen, std::memory_order_acq_rel) & ~kOpen;
  while (inside != 0) {
    wait_while_equal(gate_, inside, may_spin_, awake_until_, n_parked_);
    inside = gate_.load(std::memory_order_acquire);
  }
}

/// Returns false if the operation is over.
bool ThreadPool::enter() noexcept {
  uint32_t gate = gate_.load(std::memory_order_relaxed);
  while ((gate & kOpen) != 0) {
    if (gate_.compare_exchange_weak(gate, gate + 1, std::memory_order_acquire)) return true;
  }
  return false;
}

void ThreadPool::leave() noexcept {
  // The last thread to leave a closed gate wakes the caller, which may be asleep.
  if (gate_.fetch_sub(1, std::memory_order_acq_rel) == 1) gate_.notify_one();
}

void ThreadPool::work(int thread) noexcept {
  Pace pace(quota_, thread);
  for (uint32_t seen = 0;;) {
    pace.rest_if_due();
    wait_while_equal(round_, seen, may_spin_, awake_until_, n_parked_);
    seen = round_.load(std::memory_order_acquire);
    if (stopping_.load(std::memory_order_relaxed)) return;
    if (!enter()) continue;
    call_(context_, thread);
    leave();
  }
}

}  // namespace hearth
