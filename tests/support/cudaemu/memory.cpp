#include "tests/support/cudaemu/memory.h"

#include <signal.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "tests/support/cudaemu/order.h"
#include "tests/support/cudaemu/simulation.h"
#include "tests/support/cudaemu/stats.h"

namespace hearth::cudaemu {
namespace {

constexpr size_t kAlignment = 256;  // the alignment of cudaMalloc
constexpr size_t kPage = 4096;
// Larger allocations are not filled, because that would touch memory that a test may never use.
constexpr size_t kMostFilled = 64 << 20;

struct Allocation {
  size_t n_bytes;
  MemoryKind kind;
  void* mapping = nullptr;  // with Config::guard: its own pages, followed by one without access rights
  size_t mapping_bytes = 0;
};

std::mutex mutex;
MemoryUse use{};
size_t code_bytes = 0;  // part of use.vram_bytes
int n_at_work = 0;

std::map<uintptr_t, Allocation>& allocations() {
  static std::map<uintptr_t, Allocation> all;
  return all;
}

size_t charge(size_t n_bytes) {
  return (n_bytes + kVramGranularity - 1) / kVramGranularity * kVramGranularity;
}

/// Returns whether the device has this much memory free. REQUIRES: the mutex is locked.
bool has_free(size_t n_bytes) {
  const size_t ours = config().vram_bytes - std::min(config().vram_bytes, config().vram_taken_bytes);
  return n_bytes <= ours && use.vram_bytes + charge(n_bytes) <= ours;
}

void take_vram(size_t n_bytes) {
  use.vram_bytes += charge(n_bytes);
  use.vram_peak_bytes = std::max(use.vram_peak_bytes, use.vram_bytes);
}

/// Returns the allocation that contains p, or null.
const std::pair<const uintptr_t, Allocation>* find(const void* p) {
  const auto address = reinterpret_cast<uintptr_t>(p);
  auto after = allocations().upper_bound(address);
  if (after == allocations().begin()) return nullptr;
  const auto& candidate = *std::prev(after);
  return address < candidate.first + candidate.second.n_bytes ? &candidate : nullptr;
}

/// Maps pages that the allocation fills to the end, as far as its alignment allows.
void* map_guarded(Allocation& allocation) {
  const size_t n_pages = (allocation.n_bytes + kAlignment - 1 + kPage - 1) / kPage;
  allocation.mapping_bytes = (n_pages + 1) * kPage;
  allocation.mapping = mmap(nullptr, allocation.mapping_bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (allocation.mapping == MAP_FAILED) return nullptr;
  const uintptr_t end = reinterpret_cast<uintptr_t>(allocation.mapping) + n_pages * kPage;
  mprotect(reinterpret_cast<void*>(end), kPage, PROT_NONE);
  return reinterpret_cast<void*>((end - allocation.n_bytes) & ~(kAlignment - 1));
}

/// Maps pages of zeros, which take memory only when they are written.
void* map_untouched(Allocation& allocation) {
  allocation.mapping_bytes = (allocation.n_bytes + kPage - 1) / kPage * kPage;
  allocation.mapping = mmap(nullptr, allocation.mapping_bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return allocation.mapping == MAP_FAILED ? nullptr : allocation.mapping;
}

void protect(const Allocation& allocation, int rights) {
  if (allocation.mapping != nullptr) mprotect(allocation.mapping, allocation.mapping_bytes - kPage, rights);
}

void protect_all(int rights) {
  for (const auto& [address, allocation] : allocations()) protect(allocation, rights);
}

}  // namespace

Place place_of(const void* p, size_t n_bytes) {
  const UnseenLock lock(mutex);
  const auto* found = find(p);
  if (found == nullptr) return Place::kUnknown;
  const auto& [address, allocation] = *found;
  if (n_bytes > address + allocation.n_bytes - reinterpret_cast<uintptr_t>(p)) return Place::kOverrun;
  return allocation.kind == MemoryKind::kDevice ? Place::kDevice : Place::kPinned;
}

cudaError_t allocate(void** out, size_t n_bytes, MemoryKind kind) {
  *out = nullptr;
  if (n_bytes == 0) return cudaSuccess;
  const UnseenLock lock(mutex);
  const bool on_device = kind == MemoryKind::kDevice;
  if (on_device && !has_free(n_bytes)) return cudaErrorMemoryAllocation;
  Allocation allocation{n_bytes, kind};
  void* p = nullptr;
  if (is_simulated())
    p = map_untouched(allocation);
  else if (on_device && config().guard)
    p = map_guarded(allocation);
  else if (posix_memalign(&p, kAlignment, n_bytes) != 0)
    p = nullptr;
  if (p == nullptr) return cudaErrorMemoryAllocation;
  if (n_bytes <= kMostFilled && !is_simulated()) std::memset(p, 0xff, n_bytes);
  if (n_at_work == 0 && config().guard) protect(allocation, PROT_NONE);
  if (on_device) {
    take_vram(n_bytes);
  } else {
    use.pinned_bytes += n_bytes;
  }
  count(&Stats::allocations);
  allocations().emplace(reinterpret_cast<uintptr_t>(p), allocation);
  *out = p;
  return cudaSuccess;
}

namespace {

/// Removes p from the records. Returns false if it is not there.
bool forget(void* p, MemoryKind kind, Allocation& out) {
  const UnseenLock lock(mutex);
  const auto found = allocations().find(reinterpret_cast<uintptr_t>(p));
  if (found == allocations().end() || found->second.kind != kind) return false;
  out = found->second;
  allocations().erase(found);
  if (kind == MemoryKind::kDevice)
    use.vram_bytes -= charge(out.n_bytes);
  else
    use.pinned_bytes -= out.n_bytes;
  return true;
}

}  // namespace

cudaError_t release(void* p, MemoryKind kind) {
  if (p == nullptr) return cudaSuccess;
  Allocation allocation{};
  if (!forget(p, kind, allocation)) return cudaErrorInvalidValue;
  // ThreadSanitizer sees this release, unlike the records, so it reports a race with work that still uses the
  // memory.
  if (allocation.mapping != nullptr)
    munmap(allocation.mapping, allocation.mapping_bytes);
  else
    std::free(p);
  return cudaSuccess;
}

cudaError_t register_memory(void* p, size_t n_bytes) {
  if (p == nullptr || n_bytes == 0) return cudaErrorInvalidValue;
  const UnseenLock lock(mutex);
  const auto begin = reinterpret_cast<uintptr_t>(p);
  const auto next = allocations().lower_bound(begin);
  if (find(p) != nullptr || (next != allocations().end() && next->first < begin + n_bytes))
    return cudaErrorHostMemoryAlreadyRegistered;
  if (n_bytes > config().memlock_bytes || use.registered_bytes > config().memlock_bytes - n_bytes)
    return cudaErrorMemoryAllocation;
  use.registered_bytes += n_bytes;
  allocations().emplace(begin, Allocation{n_bytes, MemoryKind::kRegistered});
  use.pinned_bytes += n_bytes;
  count(&Stats::allocations);
  return cudaSuccess;
}

cudaError_t unregister_memory(void* p) {
  const UnseenLock lock(mutex);
  const auto found = allocations().find(reinterpret_cast<uintptr_t>(p));
  if (found == allocations().end() || found->second.kind != MemoryKind::kRegistered)
    return cudaErrorHostMemoryNotRegistered;
  use.pinned_bytes -= found->second.n_bytes;
  use.registered_bytes -= found->second.n_bytes;
  allocations().erase(found);
  return cudaSuccess;
}

cudaError_t take_code() {
  const size_t n_bytes = config().kernel_bytes;
  if (n_bytes == 0) return cudaSuccess;
  const UnseenLock lock(mutex);
  if (!has_free(n_bytes)) return cudaErrorMemoryAllocation;
  take_vram(n_bytes);
  code_bytes += charge(n_bytes);
  return cudaSuccess;
}

void give_back_code() {
  const UnseenLock lock(mutex);
  use.vram_bytes -= std::exchange(code_bytes, 0);
}

MemoryUse memory_use() {
  const UnseenLock lock(mutex);
  return use;
}

void reset_vram_peak() {
  const UnseenLock lock(mutex);
  use.vram_peak_bytes = use.vram_bytes;
}

namespace {

// For watch_pages(): written by the signal handler, which may not allocate.
std::atomic<size_t> n_watched_pages = 0;
struct sigaction action_before;

/// Opens the page and counts it. If the address is not device memory, calls the previous handler.
void open_page(int signal, siginfo_t* info, void* context) {
  const auto page = reinterpret_cast<uintptr_t>(info->si_addr) / kPage * kPage;
  for (const auto& [address, allocation] : allocations()) {
    const auto begin = reinterpret_cast<uintptr_t>(allocation.mapping);
    if (page < begin || page >= begin + allocation.mapping_bytes - kPage) continue;
    mprotect(reinterpret_cast<void*>(page), kPage, PROT_READ | PROT_WRITE);
    ++n_watched_pages;
    return;
  }
  if ((action_before.sa_flags & SA_SIGINFO) != 0) return action_before.sa_sigaction(signal, info, context);
  sigaction(signal, &action_before, nullptr);
}

}  // namespace

void watch_pages() {
  n_watched_pages = 0;
  struct sigaction action {};
  action.sa_sigaction = open_page;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSEGV, &action, &action_before);
  protect_all(PROT_NONE);
}

size_t watched_bytes() {
  sigaction(SIGSEGV, &action_before, nullptr);
  protect_all(n_at_work > 0 ? PROT_READ | PROT_WRITE : PROT_NONE);
  return n_watched_pages * kPage;
}

DeviceAtWork::DeviceAtWork(bool touches_memory) : guarded_(config().guard && touches_memory) {
  if (!guarded_) return;
  const UnseenLock lock(mutex);
  if (n_at_work++ == 0) protect_all(PROT_READ | PROT_WRITE);
}

DeviceAtWork::~DeviceAtWork() {
  if (!guarded_) return;
  const UnseenLock lock(mutex);
  if (--n_at_work == 0) protect_all(PROT_NONE);
}

}  // namespace hearth::cudaemu
