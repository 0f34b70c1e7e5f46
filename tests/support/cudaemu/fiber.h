// Stacks that one OS thread switches between. The sanitizers are told about every switch.
//
// A switch on x86-64 takes fifteen instructions and no system call, because the emulator spends most of its
// time on switches. Elsewhere, or with HEARTH_CUDAEMU_UCONTEXT, ucontext is used. A fiber stays on the OS
// thread that made it. The emulator itself is never built with sanitizers; weak symbols tell it whether the
// program is.
#pragma once

#include <cstddef>

#include "tests/support/cudaemu/order.h"

extern "C" {
void hearth_cudaemu_swap(void** save, void* load);
[[gnu::weak]] void __sanitizer_start_switch_fiber(void**, const void*, size_t);
[[gnu::weak]] void __sanitizer_finish_switch_fiber(void*, const void**, size_t*);
[[gnu::weak]] void* __tsan_create_fiber(unsigned);
[[gnu::weak]] void* __tsan_get_current_fiber(void);
[[gnu::weak]] void __tsan_switch_to_fiber(void*, unsigned);
[[gnu::weak]] void __tsan_destroy_fiber(void*);
}

namespace hearth::cudaemu {

class Fiber {
 public:
  static constexpr size_t kStackBytes = 256 << 10;

  /// Uses the stack that this OS thread already runs on.
  Fiber();
  /// Makes a new stack on which `entry` will run. `entry` must call entered() first and never return. The
  /// stack begins stagger_bytes lower, so that the active ends of many stacks do not map to the same cache
  /// sets.
  Fiber(void (*entry)(), size_t stagger_bytes);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Switches from this fiber, which must be running, to `to`. Returns when another fiber switches back.
  void switch_to(Fiber& to) {
    if (__sanitizer_start_switch_fiber) __sanitizer_start_switch_fiber(&fake_stack_, to.bottom_, to.n_bytes_);
    // The flag 1 establishes no happens-before; otherwise every race between threads of a block would be
    // hidden.
    if (__tsan_switch_to_fiber) __tsan_switch_to_fiber(to.tsan_, 1);
    hearth_cudaemu_swap(&stack_pointer_, to.stack_pointer_);
    if (__sanitizer_finish_switch_fiber) __sanitizer_finish_switch_fiber(fake_stack_, nullptr, nullptr);
  }
  static void entered() {
    if (__sanitizer_finish_switch_fiber) __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
  }

 private:
  void* stack_pointer_ = nullptr;
  void* tsan_ = nullptr;
  void* fake_stack_ = nullptr;
  void* bottom_ = nullptr;
  size_t n_bytes_ = 0;
  bool is_own_stack_ = false;
};

/// A synchronization point for ThreadSanitizer: events before a release() happen before a later acquire().
class MeetingPoint {
 public:
  void release() { release_order(this); }
  void acquire() { acquire_order(this); }

 private:
  [[maybe_unused]] char address_ = 0;  // only its address counts
};

}  // namespace hearth::cudaemu
