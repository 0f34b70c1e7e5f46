// Runs the blocks of a launch on one OS thread: a fiber per CUDA thread, barriers, and warp operations.
//
// The scheduler is cooperative: a thread runs until it waits or returns, then switches straight to the next
// ready one. For ThreadSanitizer, only barriers and warp operations order the threads of a block, so it
// reports the lines between which one is missing.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "tests/support/cudaemu/control.h"
#include "tests/support/cudaemu/device_thread.h"
#include "tests/support/cudaemu/fiber.h"
#include "tests/support/cudaemu/launch.h"

namespace hearth::cudaemu {

struct PendingCopy {
  void* to;
  const void* from;
  size_t n_bytes;
};

struct Warp;

struct alignas(64) DeviceThread {
  enum class State : uint8_t { kReady, kAtBarrier, kAtWarpOp, kReturned };

  DeviceThread(int index, Warp& warp, void (*entry)());

  Fiber fiber;
  uint3 position{};
  State state = State::kReturned;
  Warp* warp;
  uint32_t lane_bit;  // 1 << lane
  int index;          // within its block
  Location waits_at;
  std::deque<std::vector<PendingCopy>> copies;  // groups of cp.async; the last one is open
};

/// The lanes of a warp that take part in one operation.
struct WarpGroup {
  uint32_t mask, arrived, left;
  WarpOp op;
  bool used, open;
  Location at;
  MeetingPoint meeting;
  alignas(32) unsigned char values[32][Arrival::kMaxBytes];
};

struct Warp {
  uint32_t live = 0;  // lanes that have not returned
  int n_groups = 0;   // number of groups used so far
  int joined = 0;     // the group that a lane joined last
  int n_open = 0;     // groups that wait for lanes
  WarpGroup groups[64]{};
};

class BlockRunner {
 public:
  BlockRunner() = default;

  /// Prepares for blocks of this launch's size; each of their threads calls `thread`. `shared` is reset
  /// before each block.
  void prepare(const Launch& launch, const std::function<void()>& thread, void* shared);
  /// Runs one block to its end. If it deadlocks, names the waiting threads and their lines, and aborts.
  void run(uint3 block_index);
  /// Switches between fibers since prepare().
  uint64_t n_switches() const { return n_switches_; }

  const void* kernel() const { return kernel_; }
  // The running thread's implementation of device_thread.h.
  DeviceThread& current() { return *current_; }
  void* shared() const { return shared_; }
  const int* barrier(bool predicate, Location at);  // [3], by BlockReduction
  Arrival arrive(uint32_t mask, const void* value, size_t n_bytes, WarpOp op, Location at);

 private:
  static void thread_main();
  DeviceThread& thread_in_order(int i) {
    return *threads_[static_cast<size_t>(schedule_ == Schedule::kReverse ? n_threads_ - 1 - i : i)];
  }
  void push(DeviceThread& thread);
  void push_front(DeviceThread& thread);
  DeviceThread* pop();
  void switch_to(Fiber& from, DeviceThread* to);
  void wait(DeviceThread::State state, Location at);
  void finish_barrier();
  WarpGroup& group_of(Warp& warp, uint32_t mask, WarpOp op, Location at);
  void complete(Warp& warp, WarpGroup& group);
  void return_from_kernel();
  [[noreturn]] void die_of_deadlock();

  // Twice the most threads of a block, so that indices into the queue wrap by a mask.
  static constexpr unsigned kQueueSize = 2048;

  Fiber own_stack_;
  std::vector<std::unique_ptr<DeviceThread>> threads_;  // reused from block to block
  std::vector<std::unique_ptr<Warp>> warps_;
  DeviceThread* current_ = nullptr;
  int n_threads_ = 0, n_live_ = 0;
  Schedule schedule_ = Schedule::kForward;
  std::minstd_rand random_;
  uint16_t queue_[kQueueSize];
  unsigned queue_begin_ = 0, queue_end_ = 0;
  uint64_t n_switches_ = 0;

  // Two phases, because threads of the last barrier may still read its result when others arrive at the next.
  int n_at_barrier_ = 0, phase_ = 0;
  int predicates_[3]{}, results_[2][3]{};
  Location barrier_at_;
  MeetingPoint barrier_meeting_[2], begin_, end_;

  const std::function<void()>* body_ = nullptr;
  const void* kernel_ = nullptr;
  void* shared_ = nullptr;
  size_t shared_bytes_ = 0;
};

}  // namespace hearth::cudaemu
