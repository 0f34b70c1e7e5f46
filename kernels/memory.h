// Allocates a device's memory at load: owned buffers, and weights that live as long as the device.
//
// Backends implement Memory. MemoryMeter implements it too, but only counts bytes: to plan memory, the engine
// runs the same loading code with a MemoryMeter, which gives the bytes that the model will take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/matrix.h"

namespace hearth {

/// Owns device memory, which is 64-byte aligned and zeroed at first. Movable, not copyable.
class Buffer {
 public:
  using Release = void (*)(void* data, size_t bytes);
  Buffer() = default;
  Buffer(void* data, size_t bytes, Release release) : data_(data), bytes_(bytes), release_(release) {}
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer(std::move(other)).swap(*this);
    return *this;
  }
  ~Buffer() {
    if (data_ != nullptr) release_(data_, bytes_);
  }
  void swap(Buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(release_, other.release_);
  }
  size_t bytes() const { return bytes_; }
  void* data() const { return data_; }
  float* floats() const { return static_cast<float*>(data_); }
  uint16_t* halves() const { return static_cast<uint16_t*>(data_); }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
  Release release_ = nullptr;
};

class Memory {
 public:
  virtual ~Memory() = default;

  /// Allocates zeroed memory of this device. Throws std::bad_alloc. At load only.
  virtual Buffer allocate(size_t bytes) = 0;

  /// Returns the address at which the device reads these bytes of host memory. If the device has memory of
  /// its own, this is the address of a copy, which lives as long as the device; otherwise it is `host`.
  /// Throws std::bad_alloc. At load only.
  virtual const std::byte* resident(const std::byte* host, size_t /*bytes*/) { return host; }
  /// Whether resident() reads the bytes. If false, resident() only counts them, so the caller may pass memory
  /// whose contents have not been loaded.
  virtual bool reads() const { return true; }
  /// Like resident(host, bytes), but for a matrix of packed rows or for n floats. A null matrix or pointer
  /// stays null.
  Matrix resident(Matrix host) {
    if (host) host.data = resident(host.data, host.bytes());
    return host;
  }
  const float* resident(const float* host, int64_t n) {
    if (host == nullptr) return nullptr;
    const auto* bytes = reinterpret_cast<const std::byte*>(host);
    return reinterpret_cast<const float*>(resident(bytes, static_cast<size_t>(n) * sizeof(float)));
  }
};

/// Every allocation on a device is rounded up to a multiple of this. MemoryMeter rounds too, so that its sum
/// is exact.
inline constexpr size_t kPieceBytes = 256;
constexpr size_t piece_bytes(size_t bytes) { return (bytes + kPieceBytes - 1) / kPieceBytes * kPieceBytes; }

/// Counts the bytes that a device with memory of its own would allocate. The buffers that it returns are
/// empty.
class MemoryMeter final : public Memory {
 public:
  Buffer allocate(size_t bytes) override {
    bytes_ += piece_bytes(bytes);
    return {};
  }
  using Memory::resident;
  const std::byte* resident(const std::byte* host, size_t bytes) override {
    bytes_ += piece_bytes(bytes);
    return host;
  }
  bool reads() const override { return false; }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_ = 0;
};

}  // namespace hearth
