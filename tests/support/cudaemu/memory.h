// The memory ranges known to the runtime: device memory, pinned and registered host memory.
//
// Device memory is host memory that is initially full of 0xFF bytes (a NaN as a float); copies and pointers
// are checked against it. Safe to call from any thread.
#pragma once

#include <driver_types.h>

#include <cstddef>

namespace hearth::cudaemu {

/// Each device allocation takes its size, rounded up to this, from Config::vram_bytes.
inline constexpr size_t kVramGranularity = 512;

enum class MemoryKind { kDevice, kPinned, kRegistered };

/// The kind of memory that contains the n_bytes at p.
enum class Place {
  kUnknown,  // pageable, or no memory at all
  kDevice,
  kPinned,   // or registered
  kOverrun,  // begins in an allocation and ends outside
};
Place place_of(const void* p, size_t n_bytes);

/// Allocates memory. n_bytes 0 gives null.
cudaError_t allocate(void** out, size_t n_bytes, MemoryKind kind);
/// Frees an address that allocate() gave for this kind, and only once; null is allowed.
cudaError_t release(void* p, MemoryKind kind);
/// Page-locks host memory, at most Config::memlock_bytes in all.
cudaError_t register_memory(void* p, size_t n_bytes);
cudaError_t unregister_memory(void* p);

/// Takes device memory for the code of a kernel, Config::kernel_bytes; give_back_code() frees it for all
/// kernels.
cudaError_t take_code();
void give_back_code();

struct MemoryUse {
  size_t vram_bytes, vram_peak_bytes, pinned_bytes;
  size_t registered_bytes;  // part of the pinned bytes
};
MemoryUse memory_use();
void reset_vram_peak();

/// Begins to count which pages of device memory are read or written, by catching the first access to each.
/// REQUIRES: Config::guard was set before the memory was allocated; no other thread uses device memory.
void watch_pages();
/// Ends the count. Returns the bytes of the pages that were accessed.
size_t watched_bytes();

/// The device is working while such an object lives. With Config::guard, its memory may be touched only then.
class DeviceAtWork {
 public:
  explicit DeviceAtWork(bool touches_memory);
  ~DeviceAtWork();
  DeviceAtWork(const DeviceAtWork&) = delete;
  DeviceAtWork& operator=(const DeviceAtWork&) = delete;

 private:
  bool guarded_;
};

}  // namespace hearth::cudaemu
