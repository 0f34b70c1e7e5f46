// The list of all kernels that the program can launch. With it, all kernels can be loaded before the device
// memory is planned.
//
// By default, a driver loads a kernel and allocates device memory for it when the kernel is first used.
// gpu_launch() (gpu.h) accepts a kernel only as a variable gpu_kernel<kernel>. The initializer of this
// variable adds the kernel to the list before main() runs. So a kernel that is not in the list cannot be
// launched.
#pragma once

#include <type_traits>

namespace hearth::cuda {

/// An entry of the list. Entries live as long as the program. The list does not change after main() has
/// begun.
class KnownKernel {
 public:
  /// Returns the address by which CUDA's runtime identifies the kernel.
  const void* address() const { return address_; }
  /// Returns the next entry, or null if this is the last one.
  const KnownKernel* next() const { return next_; }
  /// Returns the first entry, or null if there are no kernels. The order of entries is not defined.
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
