// The state file contains JSON, because people read it when a download has failed.
#include "profiler/store/part_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <span>
#include <system_error>
#include <vector>

#include "engine/residency/memory_limit.h"
#include "kernels/base/file_error.h"
#include "kernels/base/whole_file.h"
#include "profiler/store/hub.h"
#include "profiler/store/reference.h"

namespace hearth {
namespace {

namespace fs = std::filesystem;

using Json = nlohmann::ordered_json;

constexpr size_t kMostStateBytes = 64 << 10;
constexpr size_t kHashedBytes = 1 << 20;  // bytes hashed between two calls of `look`
constexpr int kStateVersion = 2;          // files of version 1 had the full length from the beginning

std::string reason(int error) { return std::generic_category().message(error); }

/// Returns the reason why a write failed, and the remedy.
std::string write_failure(int error) {
  switch (error) {
    case ENOSPC:
      return "the disk is full; make room, then pull again: it continues where it stopped";
    case EDQUOT:
      return "your share of the disk is used up; make room, then pull again: it continues where it stopped";
    case EFBIG:
      return "the system allows no file of this size (ulimit -f, or the file system); --models names another "
             "folder";
    default:
      return "it cannot be written (" + reason(error) + ")";
  }
}

/// Whether `path` is still the path of the open file `fd`. The process that held the lock before may have
/// renamed or removed the file.
bool is_file_of(int fd, const fs::path& path) {
  struct stat open {
  }, named{};
  return ::fstat(fd, &open) == 0 && ::stat(path.c_str(), &named) == 0 && open.st_ino == named.st_ino &&
         open.st_dev == named.st_dev;
}

PartState read_state(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return {};
  try {
    return parse_part_state(read_whole_file(path, kMostStateBytes)).value_or(PartState());
  } catch (const std::runtime_error&) {
    return {};  // with an empty state, the file is downloaded again
  }
}

}  // namespace

std::string part_state_text(const PartState& state) {
  const Json json = {{"hearth_part", kStateVersion},
                     {"source", state.source},
                     {"validator", state.validator},
                     {"sha256", state.sha256},
                     {"size", state.size}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::optional<PartState> parse_part_state(std::string_view text) {
  if (text.size() > kMostStateBytes) return std::nullopt;
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("hearth_part") || json["hearth_part"] != kStateVersion)
    return std::nullopt;
  PartState state;
  for (const auto& [key, value] :
       {std::pair("source", &state.source), std::pair("validator", &state.validator),
        std::pair("sha256", &state.sha256)}) {
    const auto found = json.find(key);
    if (found == json.end() || !found->is_string()) return std::nullopt;
    *value = found->get<std::string>();
  }
  if (!state.sha256.empty() && !is_sha256(state.sha256)) return std::nullopt;
  state.sha256 = lower_case(state.sha256);
  const auto size = json.find("size");
  if (size == json.end() || !size->is_number_unsigned() || size->get<uint64_t>() > kMostFileBytes)
    return std::nullopt;
  state.size = size->get<uint64_t>();
  return state;
}

fs::path part_state_path(const fs::path& path) { return path.string() + ".state"; }

PartFile::PartFile(fs::path path, const std::function<void()>& wait)
    : path_(std::move(path)), state_path_(part_state_path(path_)) {
  std::error_code error;
  for (;;) {
    fs::create_directories(path_.parent_path(), error);
    if (error) fail("its folder cannot be made (" + error.message() + "); --models names another one");
    fd_ = UniqueFd(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
    if (!fd_ && errno == ENOENT) continue;  // another process has just removed the empty folder
    if (!fd_) fail("it cannot be opened (" + reason(errno) + "); --models names another folder");
    while (::flock(fd_.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) fail("it cannot be locked (" + reason(errno) + ")");
      wait();
    }
    if (is_file_of(fd_.get(), path_)) break;
  }
  struct stat status {};
  if (::fstat(fd_.get(), &status) != 0) fail("it cannot be read (" + reason(errno) + ")");
  length_ = static_cast<uint64_t>(status.st_size);
  state_ = read_state(state_path_);
}

void PartFile::fail(const std::string& what) const {
  throw PullError(file_error::file_label(path_.string()) + ": " + what);
}

void PartFile::reset() {
  std::error_code error;
  fs::remove(state_path_, error);  // the state first, because bytes without a state are never used
  state_ = PartState();
  if (::ftruncate(fd_.get(), 0) != 0) fail(write_failure(errno));
  length_ = 0;
}

void PartFile::reserve(uint64_t size) const {
  if (size <= length_) return;
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && size > limit.rlim_cur)
    fail(write_failure(EFBIG));
  struct stat status {};
  if (::fstat(fd_.get(), &status) != 0) fail("it cannot be read (" + reason(errno) + ")");
  const uint64_t had = static_cast<uint64_t>(status.st_blocks) * 512;
  require_space(path_.parent_path(), size > had ? size - had : 0, path_.filename().string());
  int result = 0;
  do {  // the length stays unchanged, because it is the number of bytes present
    result = ::fallocate(fd_.get(), FALLOC_FL_KEEP_SIZE, static_cast<off_t>(length_),
                         static_cast<off_t>(size - length_));
  } while (result != 0 && errno == EINTR);
  // File systems without fallocate() allocate space when bytes are written.
  if (result == 0 || errno == EOPNOTSUPP || errno == ENOSYS) return;
  const int error = errno;
  if (::ftruncate(fd_.get(), static_cast<off_t>(length_)) != 0) fail(write_failure(errno));
  fail(write_failure(error));
}

void PartFile::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(length_));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail(write_failure(n < 0 ? errno : ENOSPC));
    length_ += static_cast<uint64_t>(n);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

void PartFile::save() const {
  // The state is not flushed to disk, which could take seconds. The checksum detects damage from a power cut.
  const fs::path fresh = state_path_.string() + ".new";
  const std::string text = part_state_text(state_);
  {
    const UniqueFd fd(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644));
    if (!fd) fail("its state cannot be written (" + reason(errno) + ")");
    size_t done = 0;
    while (done < text.size()) {
      const ssize_t n = ::write(fd.get(), text.data() + done, text.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) fail(write_failure(n < 0 ? errno : ENOSPC));
      done += static_cast<size_t>(n);
    }
  }
  if (::rename(fresh.c_str(), state_path_.c_str()) != 0)
    fail("its state cannot be written (" + reason(errno) + ")");
}

void PartFile::sync() const {
  if (::fsync(fd_.get()) != 0)
    fail("its bytes did not reach the disk (" + reason(errno) + "); check the disk");
}

void PartFile::move_to(const fs::path& target) {
  std::error_code error;
  fs::create_directories(target.parent_path(), error);
  if (error) fail("its folder in the store cannot be made (" + error.message() + ")");
  if (::rename(path_.c_str(), target.c_str()) != 0)
    fail("it cannot be given its name (" + reason(errno) + ")");
  fs::remove(state_path_, error);
  const UniqueFd folder(::open(target.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder) ::fsync(folder.get());
}

void PartFile::remove() {
  std::error_code error;
  fs::remove(path_, error);
  fs::remove(state_path_, error);
}

void hash_file(int fd, uint64_t n, const std::function<void()>& look, Sha256Stream& hash) {
  std::vector<std::byte> block(kHashedBytes);
  for (uint64_t at = 0; at < n;) {
    look();
    const size_t wanted = static_cast<size_t>(std::min<uint64_t>(block.size(), n - at));
    const ssize_t got = ::pread(fd, block.data(), wanted, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      throw PullError("the file cannot be read back (" + reason(got < 0 ? errno : EIO) + "); check the disk");
    hash.add(std::span(block).first(static_cast<size_t>(got)));
    at += static_cast<uint64_t>(got);
  }
}

std::optional<uint64_t> free_bytes(const fs::path& folder) {
  fs::path there = folder;
  std::error_code error;
  while (!fs::exists(there, error) && there.has_parent_path() && there != there.parent_path())
    there = there.parent_path();
  struct statvfs status {};
  if (::statvfs(there.empty() ? "." : there.c_str(), &status) != 0) return std::nullopt;
  return static_cast<uint64_t>(status.f_bavail) * status.f_frsize;
}

void require_space(const fs::path& folder, uint64_t bytes, const std::string& what) {
  const std::optional<uint64_t> free = free_bytes(folder);
  if (!free || *free >= bytes) return;
  throw PullError(what + " needs " + bytes_text(static_cast<double>(bytes)) + " more on the disk, and " +
                  file_error::file_label(folder.string()) + " has " + bytes_text(static_cast<double>(*free)) +
                  " free; make room (hearthd list, hearthd rm), or name another folder with --models");
}

}  // namespace hearth
