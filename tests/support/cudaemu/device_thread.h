// The emulator's services for a kernel's thread: its indices, barriers of its block, warp operations,
// asynchronous copies. CUDA's built-in functions (builtins.h and the headers beside it) use them.
//
// Callable only by code that runs as a kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace hearth::cudaemu {

/// Prints the message and the calling CUDA thread, and aborts. Called where a kernel would have undefined
/// behavior on a device.
[[noreturn, gnu::format(printf, 1, 2)]] void die(const char* format, ...);

/// A line of a kernel. (std::source_location needs clang 16.)
struct Location {
  const char* file = "";
  unsigned line = 0;
  static constexpr Location current(const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
    return {file, line};
  }
};

/// Dies if p is not a multiple of `alignment`: a GPU refuses such loads and stores.
inline void check_aligned(const void* p, size_t alignment, Location at) {
  if (reinterpret_cast<uintptr_t>(p) % alignment != 0)
    die("an address that is not a multiple of %zu, %s:%u", alignment, at.file, at.line);
}

/// The launch's dynamic shared memory: exactly as long as requested, and full of 0xFF bytes when a block
/// begins.
void* dynamic_shared();
/// The calling thread's lane in its warp, [0, 32).
int lane();

/// Waits for all threads of the block that have not returned. Dies if they wait on different lines.
void block_barrier(Location at);
enum class BlockReduction { kCount, kAnd, kOr };
/// Like block_barrier, and returns the reduction of all threads' predicates.
int block_barrier_reduce(bool predicate, BlockReduction reduction, Location at);

/// Operations of a whole warp. Lanes that meet in different operations are an error.
enum class WarpOp { kSync, kShuffle, kVote, kMatch, kReduce, kMatrix };

/// The values that the lanes of a warp contribute to an operation.
struct Arrival {
  static constexpr size_t kMaxBytes = 32;
  uint32_t lanes;                      // the lanes that arrived: the mask without lanes that have returned
  unsigned char (*values)[kMaxBytes];  // [32]
  void* group;
};
/// Contributes n_bytes of `value` and waits for the lanes of mask. The caller must then call warp_leave.
Arrival warp_arrive(uint32_t mask, const void* value, size_t n_bytes, WarpOp op, Location at);
void warp_leave(const Arrival& arrival);

/// Copies only when the kernel waits for the copy, so that a kernel that reads too early sees the old bytes.
void async_copy(void* to, const void* from, size_t n_bytes);
void async_commit();
void async_wait(int n_groups_left);

/// Returns another lane's value, or 0xFF bytes if that lane did not arrive; then leaves the warp operation.
template <class T>
T take(const Arrival& arrival, int from_lane) {
  T value;
  if (from_lane >= 0 && (arrival.lanes >> from_lane & 1))
    std::memcpy(&value, arrival.values[from_lane], sizeof value);
  else
    std::memset(&value, 0xff, sizeof value);
  warp_leave(arrival);
  return value;
}

template <class T>
T shuffle(uint32_t mask, T value, int from_lane, Location at) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= Arrival::kMaxBytes);
  return take<T>(warp_arrive(mask, &value, sizeof value, WarpOp::kShuffle, at), from_lane);
}

}  // namespace hearth::cudaemu
