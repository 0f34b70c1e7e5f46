// One large allocation of device memory, from which all other allocations are taken. It has the size that the
// plan provides, so it is allocated once and never grows.
//
// Allocations follow each other from the start of the arena, and are all freed together. Used only at load,
// by one thread.
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
  /// Creates an arena that only counts bytes. The addresses that it returns must not be used.
  Arena() = default;
  /// Allocates `bytes` on the device. Throws std::bad_alloc if there is not enough memory.
  explicit Arena(size_t bytes) : memory_(bytes) {}

  /// Returns n elements of T, aligned to kPieceBytes, with undefined contents. n may be 0. Throws
  /// std::length_error if the arena does not have enough memory left, which means that the plan is wrong.
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
