// A table of mappings that a signal handler can read, and the handler; see the header.
#include "engine/model/gguf/lost_pages.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "engine/model/model_file.h"
#include "kernels/base/file_error.h"
#include "kernels/base/mutex.h"

namespace hearth::gguf {
namespace {

constexpr uintptr_t kPage = 4096;
// Models of hundreds of gigabytes have about a hundred parts. Mappings beyond the limit are not watched.
constexpr int kMostMappings = 1024;

// The signal handler reads the ranges and must not lock. `end` is written last and cleared first, so a range
// is complete if its end is set.
struct AddressRange {
  std::atomic<uintptr_t> begin{0}, end{0};
};
std::array<AddressRange, kMostMappings> watched_ranges;
std::atomic<int> lost_place{-1};  // index of the first mapping that lost a page; -1: none
static_assert(std::atomic<uintptr_t>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

struct Watched {
  std::filesystem::path path;
  uintmax_t bytes = 0;
};
Mutex watch_mutex;
std::array<Watched, kMostMappings> watched_files HEARTH_GUARDED_BY(watch_mutex);
std::array<bool, kMostMappings> taken_places HEARTH_GUARDED_BY(watch_mutex){};

// The process's earlier action for SIGBUS, still used for addresses outside the mappings. Written once,
// before the handler takes effect.
struct sigaction action_before;

/// Returns the index of the mapping that contains this address; -1: none.
int mapping_at(uintptr_t address) {
  for (int i = 0; i < kMostMappings; ++i) {
    const AddressRange& range = watched_ranges[static_cast<size_t>(i)];
    if (address < range.end.load() && address >= range.begin.load()) return i;
  }
  return -1;
}

void on_lost_page(int signal, siginfo_t* info, void* /*context*/) {
  const int error = errno;
  const uintptr_t address = reinterpret_cast<uintptr_t>(info->si_addr);
  const int place = mapping_at(address);
  // A zero or negative code means that a program sent the signal (kill), so no memory access caused it.
  if (place >= 0 && info->si_code > 0) {
    int none = -1;
    lost_place.compare_exchange_strong(none, place);  // before the thread can read a zero
    // Replace the whole rest of the mapping with one call. A truncated file has no bytes after this page, and
    // one signal for each page of a large file would take seconds. mmap() is a plain system call here, though
    // POSIX does not list it as async-signal-safe.
    const uintptr_t page = address / kPage * kPage, end = watched_ranges[static_cast<size_t>(place)].end;
    void* zeros = ::mmap(reinterpret_cast<void*>(page), end - page, PROT_READ,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    errno = error;
    if (zeros != MAP_FAILED) return;
  }
  ::sigaction(signal, &action_before, nullptr);   // the access is repeated; action_before handles its signal
  if (info->si_code <= 0) (void)::raise(signal);  // no access will be repeated
  errno = error;
}

}  // namespace

void survive_lost_pages() {
  struct sigaction action {};
  action.sa_sigaction = on_lost_page;
  action.sa_flags = SA_SIGINFO;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, nullptr, &action_before);
  ::sigaction(SIGBUS, &action, nullptr);
}

std::optional<std::string> lost_file() {
  const int place = lost_place;
  if (place < 0) return std::nullopt;
  const MutexLock lock(watch_mutex);
  const Watched& file = watched_files[static_cast<size_t>(place)];
  struct stat status {};
  const bool is_there = ::stat(file.path.c_str(), &status) == 0;
  const uintmax_t left = is_there ? static_cast<uintmax_t>(status.st_size) : 0;
  std::string sentence = file_error::file_label(file.path.string()) + ": ";
  if (is_there && left < file.bytes) {
    sentence += "the file was cut short while it was in use: " + file_error::with_commas(left) + " of " +
                file_error::with_commas(file.bytes) +
                " bytes are left; put the whole file back, by renaming it into place";
  } else {
    sentence +=
        "a part of the file cannot be read anymore: it was cut short and replaced while it was in use, or "
        "its disk or "
        "network failed; see the kernel's log (dmesg)";
  }
  return sentence;
}

void refuse_lost_file() {
  if (const std::optional<std::string> sentence = lost_file()) throw ModelFileError(*sentence);
}

WatchedMapping::WatchedMapping(std::span<const std::byte> bytes, const std::filesystem::path& path) {
  const MutexLock lock(watch_mutex);
  for (size_t i = 0; i < kMostMappings; ++i) {
    if (taken_places[i]) continue;
    taken_places[i] = true;
    watched_files[i] = {path, bytes.size()};
    place_ = static_cast<int>(i);
    const uintptr_t begin = reinterpret_cast<uintptr_t>(bytes.data());
    watched_ranges[i].begin = begin;
    watched_ranges[i].end = begin + bytes.size();
    return;
  }
}

WatchedMapping::WatchedMapping(WatchedMapping&& other) noexcept : place_(std::exchange(other.place_, -1)) {}

WatchedMapping& WatchedMapping::operator=(WatchedMapping&& other) noexcept {
  std::swap(place_, other.place_);
  return *this;
}

WatchedMapping::~WatchedMapping() {
  if (place_ < 0) return;
  const size_t i = static_cast<size_t>(place_);
  const MutexLock lock(watch_mutex);
  watched_ranges[i].end = 0;
  watched_ranges[i].begin = 0;
  if (lost_place != place_) taken_places[i] = false;  // a recorded loss stays recorded
}

}  // namespace hearth::gguf
