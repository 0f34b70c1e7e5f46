// One large allocation of device memory that all others are cut from. The memory that a plan promised is
// taken from the device at once; later allocations never take more.
//
// Allocations follow each other from the start and are freed all together. Load only; one thread.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>

#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/memory.h"

namespace hearth::cuda {

class Arena {
 public:
  /// An arena that only counts: its addresses must not be used.
  Arena() = default;
  /// Allocates `bytes` on the device. Throws std::bad_alloc if there is not enough memory.
  explicit Arena(size_t bytes) : memory_(bytes) {}

  /// n elements of T, kPieceBytes-aligned, with undefined contents; n may be 0. Throws std::length_error if
  /// the arena has less left: then the plan that sized it was wrong.
  template <class T>
  T* take(size_t n) {
    const size_t begin = used_, bytes = piece_bytes(n * sizeof(T));
    used_ += bytes;
    if (memory_.data() == nullptr) return reinterpret_cast<T*>(kPieceBytes + begin);
    if (bytes > memory_.size() - begin) {
      throw std::length_error("The plan for the device's memory has " + std::to_string(memory_.size()) +
                              " bytes, and after " + std::to_string(begin) + " of them " +
                              std::to_string(bytes) + " more are needed.");
    }
    return reinterpret_cast<T*>(memory_.data() + begin);
  }

  /// Whether the address lies in the arena.
  bool holds(const void* address) const {
    const auto begin = reinterpret_cast<uintptr_t>(memory_.data()), at = reinterpret_cast<uintptr_t>(address);
    return at >= begin && at - begin < memory_.size();
  }
  size_t used() const { return used_; }
  size_t size() const { return memory_.size(); }

 private:
  DeviceArray<std::byte> memory_;
  size_t used_ = 0;
};

}  // namespace hearth::cuda
