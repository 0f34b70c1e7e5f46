#include "tests/support/cudaemu/block.h"

#include <algorithm>
#include <bit>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

#include "tests/support/cudaemu/builtins.h"
#include "tests/support/cudaemu/symbol_name.h"

constinit thread_local uint3 threadIdx{}, blockIdx{};
constinit thread_local dim3 blockDim, gridDim;

namespace hearth::cudaemu {
namespace {

constexpr int kWarp = 32;
// The stacks' hot ends are set apart by three cache lines, so that they do not all fall on the same sets.
constexpr size_t kStagger = 192, kStaggerRange = 4096;

/// The runner whose block this OS thread runs.
thread_local BlockRunner* running = nullptr;

/// Locked by the first thread that dies, and never unlocked, so that only one message is printed.
std::recursive_mutex last_words;

}  // namespace

void die(const char* format, ...) {
  last_words.lock();
  char what[4096];  // room for two paths of source files
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(what, sizeof what, format, arguments);
  va_end(arguments);
  // Written by one call, because sanitizers write to the same stream.
  std::fprintf(stderr, "cudaemu: %s, block (%u,%u,%u) thread (%u,%u,%u): %s\n",
               running != nullptr ? symbol_name(running->kernel()).c_str() : "no kernel", blockIdx.x,
               blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z, what);
  std::abort();
}

DeviceThread::DeviceThread(int i, Warp& w, void (*entry)())
    : fiber(entry, static_cast<size_t>(i) * kStagger % kStaggerRange),
      warp(&w),
      lane_bit(1u << i % kWarp),
      index(i) {}

// ---- the ready queue -------------------------------------------------------------------------------------

inline void BlockRunner::push(DeviceThread& thread) {
  thread.state = DeviceThread::State::kReady;
  queue_[queue_end_++ % kQueueSize] = static_cast<uint16_t>(thread.index);
}

inline void BlockRunner::push_front(DeviceThread& thread) {
  thread.state = DeviceThread::State::kReady;
  queue_[--queue_begin_ % kQueueSize] = static_cast<uint16_t>(thread.index);
}

inline DeviceThread* BlockRunner::pop() {
  if (queue_begin_ == queue_end_) return nullptr;
  if (schedule_ == Schedule::kRandom) {
    const unsigned chosen = queue_begin_ + static_cast<unsigned>(random_()) % (queue_end_ - queue_begin_);
    std::swap(queue_[queue_begin_ % kQueueSize], queue_[chosen % kQueueSize]);
  }
  return threads_[queue_[queue_begin_++ % kQueueSize]].get();
}

/// Switches to a thread, or back to run() if it is null.
inline void BlockRunner::switch_to(Fiber& from, DeviceThread* to) {
  if (to != nullptr) {
    threadIdx = to->position;
    current_ = to;
  }
  ++n_switches_;
  from.switch_to(to != nullptr ? to->fiber : own_stack_);
}

inline void BlockRunner::wait(DeviceThread::State state, Location at) {
  DeviceThread& me = *current_;
  me.state = state;
  me.waits_at = at;
  switch_to(me.fiber, pop());
}

// ---- a block ---------------------------------------------------------------------------------------------

void BlockRunner::prepare(const Launch& launch, const std::function<void()>& thread, void* shared) {
  const dim3 block = launch.block;
  n_threads_ = static_cast<int>(block.x * block.y * block.z);
  schedule_ = config().schedule;
  random_.seed(config().seed);
  n_switches_ = 0;
  body_ = &thread;
  shared_ = shared;
  shared_bytes_ = launch.shared_bytes;
  kernel_ = launch.kernel;
  blockDim = launch.block;
  gridDim = launch.grid;
  for (int i = static_cast<int>(threads_.size()); i < n_threads_; ++i) {
    if (i % kWarp == 0) warps_.push_back(std::make_unique<Warp>());
    threads_.push_back(std::make_unique<DeviceThread>(i, *warps_.back(), thread_main));
  }
  for (int i = 0; i < n_threads_; ++i) {
    const auto u = static_cast<unsigned>(i);
    threads_[u]->position = {u % block.x, u / block.x % block.y, u / (block.x * block.y)};
  }
}

void BlockRunner::run(uint3 block_index) {
  running = this;
  blockIdx = block_index;
  std::memset(shared_, 0xff,
              shared_bytes_);  // NaN as a float, so that a read before a write is noticed
  queue_begin_ = queue_end_ = 0;
  n_live_ = n_threads_;
  n_at_barrier_ = 0;
  for (int i = 0; i < n_threads_; i += kWarp)
    warps_[static_cast<size_t>(i / kWarp)]->live =
        n_threads_ - i >= kWarp ? ~0u : (1u << (n_threads_ - i)) - 1;
  for (int i = 0; i < n_threads_; ++i) push(thread_in_order(i));
  begin_.release();
  switch_to(own_stack_, pop());
  end_.acquire();
  if (n_live_ > 0) die_of_deadlock();
}

void BlockRunner::thread_main() {
  Fiber::entered();
  for (;;) {
    running->begin_.acquire();
    (*running->body_)();
    running->return_from_kernel();
  }
}

void BlockRunner::return_from_kernel() {
  DeviceThread& me = *current_;
  me.state = DeviceThread::State::kReturned;
  if (!me.copies.empty()) me.copies.clear();
  Warp& warp = *me.warp;
  warp.live &= ~me.lane_bit;
  --n_live_;
  // Threads that also waited for this one need not wait any more.
  if (warp.n_open != 0 && warp.live != 0)
    for (int i = 0; i < warp.n_groups; ++i) {
      WarpGroup& group = warp.groups[i];
      if (group.used && group.open && group.arrived == (group.mask & warp.live)) complete(warp, group);
    }
  if (n_live_ > 0 && n_at_barrier_ == n_live_) finish_barrier();
  end_.release();
  switch_to(me.fiber, pop());
}

void BlockRunner::die_of_deadlock() {
  last_words.lock();
  constexpr int kMostShown = 8;
  for (int i = 0, n_shown = 0; i < n_threads_ && n_shown < kMostShown; ++i) {
    const DeviceThread& thread = *threads_[static_cast<size_t>(i)];
    if (thread.state == DeviceThread::State::kReturned) continue;
    const bool at_barrier = thread.state == DeviceThread::State::kAtBarrier;
    std::fprintf(stderr, "  thread %d waits at %s, %s:%u\n", i,
                 at_barrier ? "a barrier of the block" : "an operation of its warp", thread.waits_at.file,
                 thread.waits_at.line);
    ++n_shown;
  }
  die("deadlock: %d of %d threads wait for others that never come", n_live_, n_threads_);
}

// ---- barriers --------------------------------------------------------------------------------------------

const int* BlockRunner::barrier(bool predicate, Location at) {
  const int phase = phase_;
  if (n_at_barrier_ == 0) {
    barrier_at_ = at;
    predicates_[0] = 0, predicates_[1] = 1, predicates_[2] = 0;
  } else if (at.line != barrier_at_.line ||
             (at.file != barrier_at_.file && std::strcmp(at.file, barrier_at_.file) != 0)) {
    die("threads of a block at different barriers: %s:%u and %s:%u", at.file, at.line, barrier_at_.file,
        barrier_at_.line);
  }
  predicates_[0] += predicate, predicates_[1] &= predicate, predicates_[2] |= predicate;
  barrier_meeting_[phase].release();
  if (++n_at_barrier_ == n_live_)
    finish_barrier();
  else
    wait(DeviceThread::State::kAtBarrier, at);
  barrier_meeting_[phase].acquire();
  return results_[phase];
}

void BlockRunner::finish_barrier() {
  std::copy_n(predicates_, 3, results_[phase_]);
  phase_ ^= 1;
  n_at_barrier_ = 0;
  for (int i = 0; i < n_threads_; ++i)
    if (DeviceThread& thread = thread_in_order(i); thread.state == DeviceThread::State::kAtBarrier)
      push(thread);
}

// ---- warps -----------------------------------------------------------------------------------------------

/// The open group of lanes with this mask, or a new one.
WarpGroup& BlockRunner::group_of(Warp& warp, uint32_t mask, WarpOp op, Location at) {
  WarpGroup* unused = nullptr;
  for (int i = 0; i < warp.n_groups; ++i) {
    WarpGroup& candidate = warp.groups[i];
    if (candidate.used && candidate.open && candidate.mask == mask) {
      warp.joined = i;
      return candidate;
    }
    if (!candidate.used && unused == nullptr) unused = &candidate;
  }
  WarpGroup& group = unused != nullptr ? *unused : warp.groups[warp.n_groups++];
  group.mask = mask;
  group.arrived = group.left = 0;
  group.op = op;
  group.used = group.open = true;
  group.at = at;
  ++warp.n_open;
  warp.joined = static_cast<int>(&group - warp.groups);
  return group;
}

inline Arrival BlockRunner::arrive(uint32_t mask, const void* value, size_t n_bytes, WarpOp op, Location at) {
  DeviceThread& me = *current_;
  Warp& warp = *me.warp;
  if ((mask & me.lane_bit) == 0) die("a warp operation whose mask lacks the caller, %s:%u", at.file, at.line);
  WarpGroup* group = &warp.groups[warp.joined];  // most often the lanes of a warp arrive one after the other
  if (!group->used || !group->open || group->mask != mask) group = &group_of(warp, mask, op, at);
  if (group->op != op || group->at.line != at.line)
    die("lanes of a warp at different operations: %s:%u and %s:%u", at.file, at.line, group->at.file,
        group->at.line);
  unsigned char* const mine = group->values[me.index % kWarp];
  if (n_bytes == 4)
    std::memcpy(mine, value, 4);  // a constant size, so that this is one move
  else if (n_bytes > 0)
    std::memcpy(mine, value, n_bytes);
  group->arrived |= me.lane_bit;
  group->meeting.release();
  if (group->arrived == (mask & warp.live))
    complete(warp, *group);
  else
    wait(DeviceThread::State::kAtWarpOp, at);
  group->meeting.acquire();
  return {group->arrived, group->values, group};
}

/// Closes a group whose lanes have all arrived or returned, and resumes them.
inline void BlockRunner::complete(Warp& warp, WarpGroup& group) {
  group.open = false;
  --warp.n_open;
  // Put the resumed lanes at the front of the queue. The warp then continues to its next barrier, so only its
  // 32 stacks need to stay in the cache.
  const auto* const lanes = &threads_[static_cast<size_t>(current_->index & -kWarp)];
  for (uint32_t left = group.arrived; left != 0;) {
    const int lane = schedule_ == Schedule::kReverse ? std::countr_zero(left) : 31 - std::countl_zero(left);
    left &= ~(1u << lane);
    DeviceThread& thread = *lanes[lane];
    if (thread.state == DeviceThread::State::kAtWarpOp && &thread != current_) push_front(thread);
  }
}

// ---- device_thread.h -------------------------------------------------------------------------------------

void* dynamic_shared() { return running->shared(); }
int lane() { return running->current().index & (kWarp - 1); }
void block_barrier(Location at) { running->barrier(false, at); }
int block_barrier_reduce(bool predicate, BlockReduction reduction, Location at) {
  return running->barrier(predicate, at)[static_cast<int>(reduction)];
}
Arrival warp_arrive(uint32_t mask, const void* value, size_t n_bytes, WarpOp op, Location at) {
  return running->arrive(mask, value, n_bytes, op, at);
}
void warp_leave(const Arrival& arrival) {
  auto& group = *static_cast<WarpGroup*>(arrival.group);
  if ((group.left |= running->current().lane_bit) == group.arrived) group.used = false;
}

void async_copy(void* to, const void* from, size_t n_bytes) {
  auto& groups = running->current().copies;
  if (groups.empty()) groups.emplace_back();
  groups.back().push_back({to, from, n_bytes});
}
void async_commit() {
  auto& groups = running->current().copies;
  if (groups.empty()) groups.emplace_back();
  groups.emplace_back();
}
void async_wait(int n_groups_left) {
  auto& groups = running->current().copies;
  while (static_cast<int>(groups.size()) - 1 > n_groups_left) {
    for (const PendingCopy& copy : groups.front()) std::memcpy(copy.to, copy.from, copy.n_bytes);
    groups.pop_front();
  }
}

}  // namespace hearth::cudaemu
