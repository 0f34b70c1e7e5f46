#include "tests/support/cudaemu/fiber.h"

#include <pthread.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#if defined(__x86_64__) && !defined(HEARTH_CUDAEMU_UCONTEXT)

// Saves the registers that functions must preserve in the System V ABI, and loads those of the other stack.
asm(R"(.text
.p2align 4
.globl hearth_cudaemu_swap
.type hearth_cudaemu_swap,@function
hearth_cudaemu_swap:
  push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15
  mov %rsp,(%rdi)
  mov %rsi,%rsp
  pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp
  ret
.size hearth_cudaemu_swap,.-hearth_cudaemu_swap
)");

namespace {

/// A stack as the swap leaves it: six registers, the address at which to continue, and no caller.
void* first_context(char* top, size_t, void (*entry)()) {
  void** p = reinterpret_cast<void**>(reinterpret_cast<uintptr_t>(top) & ~uintptr_t{15});
  *--p = nullptr;
  *--p = reinterpret_cast<void*>(entry);
  for (int i = 0; i < 6; ++i) *--p = nullptr;
  return p;
}

}  // namespace

#else
#include <ucontext.h>

void hearth_cudaemu_swap(void** save, void* load) {
  ucontext_t here;
  *save = &here;
  swapcontext(&here, static_cast<ucontext_t*>(load));
}

namespace {

/// The context is stored at the top of the stack that it describes.
void* first_context(char* top, size_t n_bytes, void (*entry)()) {
  const size_t own = (sizeof(ucontext_t) + 63) & ~size_t{63};
  auto* context = reinterpret_cast<ucontext_t*>(top - own);
  getcontext(context);
  context->uc_stack.ss_sp = top - n_bytes;
  context->uc_stack.ss_size = n_bytes - own;
  context->uc_link = nullptr;
  makecontext(context, entry, 0);
  return context;
}

}  // namespace
#endif

namespace hearth::cudaemu {
namespace {
constexpr size_t kPage = 4096;  // the guard below each stack
}

Fiber::Fiber() {
  pthread_attr_t attributes;
  pthread_getattr_np(pthread_self(), &attributes);
  pthread_attr_getstack(&attributes, &bottom_, &n_bytes_);
  pthread_attr_destroy(&attributes);
  if (__tsan_get_current_fiber) tsan_ = __tsan_get_current_fiber();
}

Fiber::Fiber(void (*entry)(), size_t stagger_bytes) : n_bytes_(kStackBytes), is_own_stack_(true) {
  void* mapped = mmap(nullptr, kStackBytes + kPage, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED || mprotect(mapped, kPage, PROT_NONE) != 0) {
    std::perror("cudaemu: the stack of a CUDA thread");
    std::abort();
  }
  bottom_ = static_cast<char*>(mapped) + kPage;
  char* top = static_cast<char*>(bottom_) + kStackBytes - stagger_bytes;
  stack_pointer_ = first_context(top, kStackBytes - stagger_bytes, entry);
  if (__tsan_create_fiber) tsan_ = __tsan_create_fiber(0);
}

Fiber::~Fiber() {
  if (!is_own_stack_) return;
  if (__tsan_destroy_fiber) __tsan_destroy_fiber(tsan_);
  munmap(static_cast<char*>(bottom_) - kPage, kStackBytes + kPage);
}

}  // namespace hearth::cudaemu
