// Threads, spinning and parking. See the header.
#include "kernels/cpu/thread_pool.h"

#include <immintrin.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cassert>
#include <chrono>

#include "kernels/cpu/topology.h"

namespace hearth {
namespace {

// How long a thread polls before it parks. Two operations of a step are 1 to 20 microseconds apart, two steps
// (with sampling and publishing between them) some 50. So a thread that polls this long sleeps only when the
// server is idle. Waking a parked thread takes 5 to 50 microseconds.
constexpr std::chrono::microseconds kSpinTime{100};
// After polling this long, a thread offers its processor to others between polls, because the thread that it
// waits for may be queued behind it. An offer that nobody takes costs a third of a microsecond.
constexpr std::chrono::microseconds kPoliteAfter{10};

// Polls between two reads of the clock: a pause takes 40 to 140 cycles, a read about as long as one pause.
constexpr int kPollsPerClock = 16;

constexpr uint32_t kOpen = uint32_t{1} << 31;

/// Waits until `value` is no longer `old`: polls for kSpinTime if `may_spin`, then sleeps.
void wait_while_equal(const std::atomic<uint32_t>& value, uint32_t old, bool may_spin) noexcept {
  using Clock = std::chrono::steady_clock;
  if (may_spin) {
    const Clock::time_point start = Clock::now();
    for (Clock::duration waited{}; waited < kSpinTime; waited = Clock::now() - start) {
      for (int i = 0; i < kPollsPerClock; ++i) {
        if (value.load(std::memory_order_acquire) != old) return;
        _mm_pause();
      }
      if (waited > kPoliteAfter) sched_yield();
    }
  }
  value.wait(old, std::memory_order_acquire);
}

/// Binds a thread to one CPU. False if the system refuses.
bool bind(pthread_t thread, int cpu) {
  cpu_set_t set;
  if (cpu >= CPU_SETSIZE) return false;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(cpu), &set);
  return pthread_setaffinity_np(thread, sizeof set, &set) == 0;
}

}  // namespace

int default_thread_count() {
  const int cores = static_cast<int>(one_cpu_per_core(allowed_cpus()).size());
  const int quota = cgroup_cpu_limit();
  return quota == 0 ? cores : std::min(cores, quota);
}

ThreadPool::ThreadPool(int n_threads) {
  assert(n_threads >= 1);
  // With fewer processors than threads, a spinning thread would keep the thread it waits for from running.
  may_spin_ = n_threads <= static_cast<int>(allowed_cpus().size());
  threads_.reserve(static_cast<size_t>(n_threads - 1));
  try {
    for (int thread = 1; thread < n_threads; ++thread) {
      threads_.emplace_back([this, thread] { work(thread); });
    }
  } catch (...) {
    stop();  // otherwise the threads already started would wait for ever
    throw;
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() noexcept {
  stopping_.store(true, std::memory_order_relaxed);  // published by the new round
  round_.fetch_add(1, std::memory_order_seq_cst);
  round_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool ThreadPool::bind_threads() {
  const std::vector<int> allowed = allowed_cpus();
  std::vector<int> places = one_cpu_per_core(allowed);
  const size_t n = static_cast<size_t>(n_threads());
  if (n > places.size()) places = allowed;
  if (n != places.size()) return false;
  bool bound = bind(pthread_self(), places[0]);
  for (size_t i = 0; i < threads_.size(); ++i) bound &= bind(threads_[i].native_handle(), places[i + 1]);
  return bound;
}

void ThreadPool::share(Call call, const void* context) noexcept {
  // 1. No thread is inside: write the call, open the gate and wake parked threads. Sequential consistency
  // ensures that a thread about to sleep either sees the new round or is seen waiting.
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
    wait_while_equal(gate_, inside, may_spin_);
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
  for (uint32_t seen = 0;;) {
    wait_while_equal(round_, seen, may_spin_);
    seen = round_.load(std::memory_order_acquire);
    if (stopping_.load(std::memory_order_relaxed)) return;
    if (!enter()) continue;
    call_(context_, thread);
    leave();
  }
}

}  // namespace hearth
