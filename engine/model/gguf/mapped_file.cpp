// Opening and mapping, with what each refusal says.
#include "engine/model/gguf/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "engine/model/gguf/fault.h"

namespace hearth::gguf {
namespace {

// A descriptor closed at the end of the scope; the mapping outlives it.
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
      fail(file, "there is no such file; check the path");
    case EACCES:
    case EPERM:
      fail(file, "it may not be read" + reason + "; check the permissions of the file and its folders");
    default:
      fail(file, "it cannot be opened" + reason + "; check the path and the disk");
  }
}

void require_regular(const std::string& file, const struct stat& status, const char* expected) {
  const char* kind = nullptr;
  if (S_ISREG(status.st_mode)) return;
  if (S_ISDIR(status.st_mode)) kind = "a directory";
  if (S_ISFIFO(status.st_mode)) kind = "a pipe";
  if (S_ISSOCK(status.st_mode)) kind = "a socket";
  if (S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode)) kind = "a device";
  fail(file, std::string("it is ") + (kind != nullptr ? kind : "no regular file") + ", expected " + expected +
                 "; give the path of the file itself");
}

}  // namespace

MappedFile MappedFile::open(const std::filesystem::path& path, const char* expected) {
  const std::string file = file_label(path.string());
  struct stat status {};
  // Asked before opening too: the mere opening of a device can do something.
  if (::stat(path.c_str(), &status) != 0) fail_with_errno(file, errno);
  require_regular(file, status, expected);
  // O_NONBLOCK: should the path have become a pipe meanwhile, opening it does not wait for a writer.
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  if (fd.get() < 0) fail_with_errno(file, errno);
  if (::fstat(fd.get(), &status) != 0) fail_with_errno(file, errno);
  require_regular(file, status, expected);
  if (status.st_size == 0)
    fail(file, "it is empty (0 bytes), expected " + std::string(expected) + "; download it again");
  const size_t size = static_cast<size_t>(status.st_size);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) {
    const std::string reason = std::generic_category().message(errno);
    fail(file, "its " + with_commas(size) + " bytes cannot be mapped into memory (" + reason +
                   "); check the address space limit (ulimit -v) and that its file system supports mmap");
  }
  return MappedFile(static_cast<const std::byte*>(data), size);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace hearth::gguf
