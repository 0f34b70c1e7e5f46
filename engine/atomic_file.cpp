// See the header. POSIX: rename() replaces a name at once.
#include "engine/atomic_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include "engine/gguf/fault.h"

namespace hearth {
namespace {

/// The unfinished file: closed, and unless it got its name, gone with the object.
class Unfinished {
 public:
  Unfinished(const std::filesystem::path& path, std::string label) : path_(path), label_(std::move(label)) {
    // A name that no other program and no other thread of this one takes now.
    static std::atomic<unsigned> n_made{0};
    name_ = path.string() + "." + std::to_string(::getpid()) + "." + std::to_string(n_made++) + ".part";
    fd_ = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666);
    if (fd_ < 0) fail("it cannot be written", "check the folder and its permissions");
  }
  ~Unfinished() {
    if (fd_ >= 0) ::close(fd_);
    if (!named_ && fd_ >= 0) ::unlink(name_.c_str());
  }
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

  void write(std::span<const std::byte> bytes) const {
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) fail("writing it stopped", "make room on its disk, or write to another");
      bytes = bytes.subspan(static_cast<size_t>(n));
    }
  }
  void name_it() {
    // Before the name: after a power cut the name must not stand for half a file.
    if (::fsync(fd_) != 0) fail("its bytes did not reach the disk", "check the disk");
    if (::rename(name_.c_str(), path_.c_str()) != 0) fail("it cannot be given its name", "check the folder");
    named_ = true;
    const int folder = ::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return;
    ::fsync(folder);  // the name too; a file system that cannot do it has its own way
    ::close(folder);
  }

 private:
  [[noreturn]] void fail(const char* what, const char* remedy) const {
    throw std::runtime_error(label_ + ": " + what + " (" + std::generic_category().message(errno) +
                             "); what was there before is as it was; " + remedy + ".");
  }

  std::filesystem::path path_;
  std::string label_, name_;
  int fd_ = -1;
  bool named_ = false;
};

}  // namespace

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

void write_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  Unfinished file(path, gguf::file_label(path.string()));
  file.write(bytes);
  file.name_it();
}

FolderLock::FolderLock(const std::filesystem::path& folder)
    : fd_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  while (fd_ >= 0 && ::flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
  }
}

FolderLock::~FolderLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace hearth
