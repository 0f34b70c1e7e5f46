// Reads and writes whole files, and locks folders. POSIX guarantees that rename() replaces a file atomically.
#include "kernels/base/whole_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "kernels/base/file_error.h"

namespace hearth {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& path, const std::string& what) {
  throw std::runtime_error(file_error::file_label(path.string()) + ": " + what + ".");
}

std::string reason() { return std::generic_category().message(errno); }

/// A new file beside `path`. The destructor removes it unless it was renamed to `path`.
class PartFile {
 public:
  PartFile(const fs::path& path, Readers readers) : path_(path) {
    const mode_t mode = readers == Readers::kOwner ? 0600 : 0666;
    static std::atomic<unsigned> n_made{0};
    do {  // a killed process with our process id may have left a file of this name
      part_ = path.string() + ".part-" + std::to_string(::getpid()) + "-" + std::to_string(n_made++);
      fd_ = ::open(part_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    } while (fd_ < 0 && errno == EEXIST);
    if (fd_ < 0)
      fail(path, "a file cannot be made beside it (" + reason() + "); choose a folder that you may write");
  }
  ~PartFile() {
    if (fd_ >= 0) ::close(fd_);
    if (!part_.empty()) ::unlink(part_.c_str());
  }
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  void write(std::span<const std::byte> bytes) const {
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) fail_whole("writing it stopped", "make room or choose another disk");
      bytes = bytes.subspan(static_cast<size_t>(n));
    }
  }

  void take_name() {
    // Sync before the rename, so that after a power failure the name does not point to half a file. Late
    // write errors are also reported here.
    if (::fsync(fd_) != 0) fail_whole("its bytes did not reach the disk", "check the disk");
    if (::close(std::exchange(fd_, -1)) != 0)
      fail_whole("its bytes did not reach the disk", "check the disk");
    if (std::rename(part_.c_str(), path_.c_str()) != 0)
      fail_whole("the finished file cannot be given its name", "check the folder");
    part_.clear();
    const int folder = ::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return;
    ::fsync(folder);  // make the rename durable; errors are ignored, because some file systems do not support
                      // this
    ::close(folder);
  }

 private:
  [[noreturn]] void fail_whole(const char* what, const char* remedy) const {
    fail(path_, std::string(what) + " (" + reason() + "); the previous file is unchanged; " + remedy);
  }

  fs::path path_;
  std::string part_;
  int fd_ = -1;
};

/// Throws if something other than a plain file has the name.
void refuse_other_kinds(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status) || fs::is_regular_file(status)) return;
  fail(path, "is not a plain file, and is not replaced by one; choose another name");
}

}  // namespace

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

void write_whole_file(const fs::path& path, std::span<const std::byte> bytes, Readers readers) {
  refuse_other_kinds(path);
  PartFile part(path, readers);
  part.write(bytes);
  part.take_name();
}

void write_whole_file(const fs::path& path, std::string_view text) {
  write_whole_file(path, std::as_bytes(std::span(text)));
}

void check_writable(const fs::path& path) {
  refuse_other_kinds(path);
  const PartFile part(path, Readers::kOwner);
}

std::string read_whole_file(const fs::path& path, size_t max_bytes) {
  // Without O_NONBLOCK, open() of a pipe would wait for a writer.
  const int fd = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) fail(path, "cannot be read: " + reason());
  const std::unique_ptr<const int, void (*)(const int*)> closing(&fd,
                                                                 [](const int* open) { ::close(*open); });
  struct stat about = {};
  if (::fstat(fd, &about) != 0) fail(path, "cannot be read: " + reason());
  if (!S_ISREG(about.st_mode)) fail(path, "is not a plain file");
  std::string text(max_bytes + 1, '\0');
  size_t n_read = 0;
  while (n_read < text.size()) {
    const ssize_t n = ::read(fd, text.data() + n_read, text.size() - n_read);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(path, "cannot be read: " + reason());
    if (n == 0) break;
    n_read += static_cast<size_t>(n);
  }
  if (n_read > max_bytes)
    fail(path, "has over " + std::to_string(max_bytes) + " bytes, more than it can have");
  text.resize(n_read);
  return text;
}

FolderLock::FolderLock(const fs::path& folder)
    : fd_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  while (fd_ >= 0 && ::flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
  }
}

FolderLock::~FolderLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace hearth
