// Every kernel that the program can launch, so that all of them can be loaded before the device's memory is
// planned.
//
// A driver loads a kernel when it is first used, and takes device memory for it then. gpu_launch() (gpu.h)
// accepts a kernel only as gpu_kernel<...>, and the initializer of that variable enters the kernel into the
// list before main() runs. A kernel that is missing here therefore cannot be launched.
#pragma once

#include <type_traits>

namespace hearth::cuda {

/// An entry of the list. Entries live as long as the program; the list does not change after main() has
/// begun.
class KnownKernel {
 public:
  /// The kernel as CUDA's runtime identifies it.
  const void* address() const { return address_; }
  /// The next entry; null: this is the last one.
  const KnownKernel* next() const { return next_; }
  /// The first entry, in no particular order; null: there are no kernels.
  static const KnownKernel* first() { return first_; }

  KnownKernel(const KnownKernel&) = delete;
  KnownKernel& operator=(const KnownKernel&) = delete;

 protected:
  explicit KnownKernel(const void* address) : address_(address), next_(first_) { first_ = this; }

 private:
  static inline constinit const KnownKernel* first_ = nullptr;

  const void* address_;
  const KnownKernel* next_;
};

template <class Function>
class GpuKernel;

/// A kernel with these parameters.
template <class... P>
class GpuKernel<void(P...)> : public KnownKernel {
 public:
  explicit GpuKernel(void (*kernel)(P...))
      : KnownKernel(reinterpret_cast<const void*>(kernel)), function_(kernel) {}
  /// The function that the emulator calls.
  void (*function() const)(P...) { return function_; }

 private:
  void (*function_)(P...);
};

/// The only object for a kernel: gpu_kernel<add_kernel>.
template <auto kFunction>
inline const GpuKernel<std::remove_pointer_t<decltype(kFunction)>> gpu_kernel{kFunction};

}  // namespace hearth::cuda
