// Opens and maps files, refuses unusable ones with a message, and uses threads to read mapped pages ahead.
#include "engine/model/gguf/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "kernels/base/file_error.h"

namespace hearth::gguf {
namespace {

// A file descriptor that is closed at the end of its scope. The file's mapping stays valid after that.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

[[noreturn]] void fail_with_errno(const std::string& file, int error) {
  const std::string reason = " (" + std::generic_category().message(error) + ")";
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      file_error::fail(file, "there is no such file; check the path");
    case EACCES:
    case EPERM:
      file_error::fail(file,
                       "it cannot be read" + reason + "; check the permissions of the file and its folders");
    default:
      file_error::fail(file, "it cannot be opened" + reason + "; check the path and the disk");
  }
}

void require_regular(const std::string& file, const struct stat& status, const char* expected) {
  const char* kind = nullptr;
  if (S_ISREG(status.st_mode)) return;
  if (S_ISDIR(status.st_mode)) kind = "a directory";
  if (S_ISFIFO(status.st_mode)) kind = "a pipe";
  if (S_ISSOCK(status.st_mode)) kind = "a socket";
  if (S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode)) kind = "a device";
  file_error::fail(file, std::string("it is ") + (kind != nullptr ? kind : "no regular file") +
                             ", expected " + expected + "; give the path of the file itself");
}

}  // namespace

MappedFile MappedFile::open(const std::filesystem::path& path, const char* expected) {
  const std::string file = file_error::file_label(path.string());
  struct stat status {};
  // Check the kind of file once before opening it and once afterward, because merely opening a device can
  // have an effect.
  if (::stat(path.c_str(), &status) != 0) fail_with_errno(file, errno);
  require_regular(file, status, expected);
  // With O_NONBLOCK, opening does not wait for a writer if the path has meanwhile become a pipe.
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  if (fd.get() < 0) fail_with_errno(file, errno);
  if (::fstat(fd.get(), &status) != 0) fail_with_errno(file, errno);
  require_regular(file, status, expected);
  if (status.st_size == 0)
    file_error::fail(file,
                     "it is empty (0 bytes), expected " + std::string(expected) + "; download it again");
  const size_t size = static_cast<size_t>(status.st_size);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) {
    const std::string reason = std::generic_category().message(errno);
    file_error::fail(
        file, "its " + file_error::with_commas(size) + " bytes cannot be mapped into memory (" + reason +
                  "); check the address space limit (ulimit -v) and that its file system supports mmap");
  }
  return MappedFile(static_cast<const std::byte*>(data), size, path);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      watched_(std::move(other.watched_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(watched_, other.watched_);
  return *this;
}

MappedFile::~MappedFile() {
  watched_ = WatchedMapping();  // unregister before munmap() frees the addresses
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

namespace {

// Number of bytes read between two progress reports: enough for long disk reads, few enough for smooth
// progress (60 reports per GB).
constexpr size_t kTouchedBytes = size_t{16} << 20;
constexpr size_t kPageBytes = 4096;
// Number of threads that help the calling thread. Four threads together keep an NVMe drive busy. If the pages
// are in the page cache, the rate of page faults is the limit, and two threads reach it.
constexpr unsigned kHelpers = 3;

void touch(std::span<const std::byte> piece) {
  // madvise() is only a hint. If it fails, the reads below still load the pages.
  const size_t into_page = reinterpret_cast<uintptr_t>(piece.data()) % kPageBytes;
  ::madvise(const_cast<std::byte*>(piece.data()) - into_page, piece.size() + into_page, MADV_WILLNEED);
  for (size_t at = 0; at < piece.size(); at += kPageBytes) {
    static_cast<void>(*static_cast<const volatile std::byte*>(piece.data() + at));
  }
}

std::vector<std::span<const std::byte>> cut(const std::vector<std::span<const std::byte>>& regions) {
  std::vector<std::span<const std::byte>> pieces;
  for (const std::span<const std::byte> region : regions) {
    for (size_t at = 0; at < region.size(); at += kTouchedBytes) {
      pieces.push_back(region.subspan(at, std::min(kTouchedBytes, region.size() - at)));
    }
  }
  return pieces;
}

}  // namespace

void prefault(const std::vector<std::span<const std::byte>>& regions,
              const std::function<void(double)>& progress) {
  const std::vector<std::span<const std::byte>> pieces = cut(regions);
  std::atomic<size_t> next{0};
  std::atomic<size_t> done{0};
  const auto work = [&](const std::stop_token& stop, const auto& after_each) {
    while (!stop.stop_requested()) {
      const size_t i = next.fetch_add(1);
      if (i >= pieces.size()) return;
      touch(pieces[i]);
      done.fetch_add(1);
      after_each();
    }
  };
  {
    std::vector<std::jthread> helpers;  // joined at the end of the scope, even after an exception
    const unsigned n_helpers =
        std::min<unsigned>(kHelpers, std::max(1u, std::thread::hardware_concurrency()) - 1);
    for (unsigned i = 0; i < n_helpers && i + 1 < pieces.size(); ++i) {
      helpers.emplace_back([&work](const std::stop_token& stop) { work(stop, [] {}); });
    }
    work(std::stop_token{}, [&] {
      // Report the fraction 1 only at the end, when the helpers have finished too.
      if (progress && done < pieces.size())
        progress(static_cast<double>(done) / static_cast<double>(pieces.size()));
    });
  }
  if (progress) progress(1.0);
}

void release(std::span<const std::byte> region) {
  const auto begin = reinterpret_cast<uintptr_t>(region.data());
  const uintptr_t first = (begin + kPageBytes - 1) / kPageBytes * kPageBytes;
  const uintptr_t end = (begin + region.size()) / kPageBytes * kPageBytes;
  // Unmodified pages of a file can be read again, so nothing is lost. If madvise() fails, the pages only stay
  // in memory.
  if (first < end) madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);
}

}  // namespace hearth::gguf
