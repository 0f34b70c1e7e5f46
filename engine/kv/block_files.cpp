// See the header.
#include "engine/kv/block_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>

#include "kernels/base/unique_fd.h"

namespace hearth {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "hearthKV";
constexpr uint32_t kVersion = 1;
constexpr std::string_view kUnfinished = ".part-";
// A writer that needs longer than this for one file has been killed.
constexpr std::chrono::minutes kOldestUnfinished{10};
// When the limit is exceeded, this share of it is freed at once, because finding the oldest files takes a
// look at all files.
constexpr uint64_t kFreedShare = 16;
constexpr size_t kHexDigits = 64;

/// The fixed fields of a file's header. After them come the tokens, the checksum, and the content. Numbers
/// are in the machine's byte order: a folder is not meant to be copied to another machine.
struct Header {
  char magic[8];
  uint32_t version;
  uint32_t part;
  uint64_t content_bytes;
  uint64_t n_tokens;
  PrefixKey parent;
};
static_assert(sizeof(Header) == 64);

/// A 64-bit checksum. Each step is a bijection of the sum and of the word, so one changed word always changes
/// the result. It protects against accidents, not against people who may write the folder.
uint64_t checksum_of(uint64_t sum, std::span<const std::byte> bytes) {
  const auto add = [&](uint64_t word) {
    sum = (sum ^ word) * 0x9E3779B97F4A7C15u;  // as in KvBlocks::prefix_hash()
    sum ^= sum >> 32;
  };
  while (bytes.size() >= sizeof(uint64_t)) {
    uint64_t word;
    std::memcpy(&word, bytes.data(), sizeof(word));
    add(word);
    bytes = bytes.subspan(sizeof(word));
  }
  uint64_t rest = 0;
  if (!bytes.empty()) std::memcpy(&rest, bytes.data(), bytes.size());
  add(rest);
  return sum;
}

Header header_of(const DiskBlock& block, DiskPart part, size_t file_bytes) {
  Header header{};
  std::ranges::copy(kMagic, header.magic);
  header.version = kVersion;
  header.part = static_cast<uint32_t>(part);
  header.content_bytes = file_bytes - disk_header_bytes(block.tokens.size());
  header.n_tokens = block.tokens.size();
  header.parent = block.parent;
  return header;
}

uint64_t checksum_of_file(std::span<const std::byte> file, size_t header_bytes) {
  const uint64_t of_header = checksum_of(1, file.first(header_bytes - sizeof(uint64_t)));
  return checksum_of(of_header, file.subspan(header_bytes));
}

std::string reason() { return std::generic_category().message(errno); }

timespec timespec_of(BlockFiles::Time time) {
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
  return {.tv_sec = static_cast<time_t>(ns / 1'000'000'000),
          .tv_nsec = static_cast<long>(ns % 1'000'000'000)};
}

const char* ending_of(DiskPart part) { return part == DiskPart::kBlock ? ".kv" : ".state"; }

/// Whether a file of this name is one of ours.
bool is_ours(std::string_view name) {
  if (name.size() < kHexDigits) return false;
  const bool hex = std::ranges::all_of(
      name.substr(0, kHexDigits), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  const std::string_view ending = name.substr(kHexDigits);
  return hex &&
         (ending.starts_with(ending_of(DiskPart::kBlock)) || ending.starts_with(ending_of(DiskPart::kState)));
}

/// Reads exactly file.size() bytes.
bool read_all(int fd, std::span<std::byte> file) {
  while (!file.empty()) {
    const ssize_t n = ::read(fd, file.data(), file.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    file = file.subspan(static_cast<size_t>(n));
  }
  return true;
}

bool write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return true;
}

/// Opens a plain file for reading. Returns its size, or nullopt if there is no plain file.
std::optional<uint64_t> open_plain(const fs::path& path, UniqueFd& fd) {
  // Without O_NONBLOCK, open() of a pipe would wait for a writer.
  fd.reset(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
  struct stat about {};
  if (!fd || ::fstat(fd.get(), &about) != 0 || !S_ISREG(about.st_mode)) return std::nullopt;
  return static_cast<uint64_t>(about.st_size);
}

/// Whether a file has exactly these bytes.
bool holds(const fs::path& path, std::span<const std::byte> bytes) {
  UniqueFd fd;
  if (open_plain(path, fd) != bytes.size()) return false;
  std::vector<std::byte> there(bytes.size());
  return read_all(fd.get(), there) && std::ranges::equal(there, bytes);
}

}  // namespace

PrefixKey key_after(const PrefixKey& parent, std::span<const int32_t> tokens) {
  Sha256Stream hash;
  hash.add(std::as_bytes(std::span(parent)));
  hash.add(std::as_bytes(tokens));
  return hash.finish();
}

void fill_disk_header(const DiskBlock& block, DiskPart part, std::span<std::byte> file) {
  const size_t header_bytes = disk_header_bytes(block.tokens.size());
  assert(file.size() >= header_bytes);
  const Header header = header_of(block, part, file.size());
  std::memcpy(file.data(), &header, sizeof(header));
  const std::span<const std::byte> tokens = std::as_bytes(std::span(block.tokens));
  std::ranges::copy(tokens, file.subspan(sizeof(header)).begin());
  const uint64_t checksum = checksum_of_file(file, header_bytes);
  std::memcpy(file.data() + header_bytes - sizeof(checksum), &checksum, sizeof(checksum));
}

bool is_disk_file(const DiskBlock& block, DiskPart part, std::span<const std::byte> file) {
  const size_t header_bytes = disk_header_bytes(block.tokens.size());
  if (file.size() < header_bytes) return false;
  const Header expected = header_of(block, part, file.size());
  if (std::memcmp(file.data(), &expected, sizeof(expected)) != 0) return false;
  const std::span<const std::byte> tokens = std::as_bytes(std::span(block.tokens));
  if (!std::ranges::equal(tokens, file.subspan(sizeof(expected), tokens.size()))) return false;
  uint64_t checksum;
  std::memcpy(&checksum, file.data() + header_bytes - sizeof(checksum), sizeof(checksum));
  return checksum == checksum_of_file(file, header_bytes);
}

fs::path BlockFiles::path_of(const PrefixKey& key, DiskPart part) const {
  return folder_ / (hex_text(key) + ending_of(part));
}

bool BlockFiles::has(const PrefixKey& key, DiskPart part) const {
  struct stat about {};
  return ::lstat(path_of(key, part).c_str(), &about) == 0 && S_ISREG(about.st_mode);
}

bool BlockFiles::read(const DiskBlock& block, DiskPart part, size_t n_bytes,
                      std::vector<std::byte>& file) const {
  const fs::path path = path_of(block.key(), part);
  UniqueFd fd;
  const std::optional<uint64_t> n_there = open_plain(path, fd);
  if (!n_there) return false;
  file.resize(n_bytes);
  if (*n_there == n_bytes && read_all(fd.get(), file) && is_disk_file(block, part, file)) return true;
  ::unlink(path.c_str());
  return false;
}

std::optional<std::string> BlockFiles::write(const PrefixKey& key, DiskPart part,
                                             std::span<const std::byte> file, Time used) {
  const fs::path path = path_of(key, part);
  const bool replaces = has(key, part);
  if (replaces && holds(path, file)) {
    touch(key, part, used);
    return std::nullopt;
  }
  if (file.size() > max_bytes_) return std::nullopt;
  // Other programs write, too, so look again from time to time.
  const bool is_full = contents_.bytes + file.size() > max_bytes_;
  if (!tidied_ || is_full || written_since_tidy_ > max_bytes_ / kFreedShare) tidy(file.size());
  if (std::optional<std::string> why = write_new(path, file, used)) return why;
  if (replaces) return std::nullopt;  // a damaged file, which is counted
  contents_.bytes += file.size();
  ++contents_.n_files;
  written_since_tidy_ += file.size();
  return std::nullopt;
}

/// Writes a file under another name and then gives it its name. Returns the reason if this is impossible.
std::optional<std::string> BlockFiles::write_new(const fs::path& path, std::span<const std::byte> file,
                                                 Time used) const {
  static std::atomic<unsigned> n_made{0};
  const std::string part =
      path.string() + std::string(kUnfinished) + std::to_string(::getpid()) + "-" + std::to_string(n_made++);
  UniqueFd fd(::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd) return reason();
  const timespec times[2] = {timespec_of(used), timespec_of(used)};
  std::optional<std::string> why;
  if (!write_all(fd.get(), file)) {
    why = reason();
  } else if (::futimens(fd.get(), times) != 0 || std::rename(part.c_str(), path.c_str()) != 0) {
    why = reason();
  }
  if (why) ::unlink(part.c_str());
  return why;
}

void BlockFiles::touch(const PrefixKey& key, DiskPart part, Time used) const {
  const timespec times[2] = {timespec_of(used), timespec_of(used)};
  ::utimensat(AT_FDCWD, path_of(key, part).c_str(), times, AT_SYMLINK_NOFOLLOW);
}

void BlockFiles::remove(const PrefixKey& key, DiskPart part) const { ::unlink(path_of(key, part).c_str()); }

BlockFiles::Contents BlockFiles::tidy(uint64_t n_needed) {
  struct File {
    fs::file_time_type used;
    uint64_t bytes = 0;
    fs::path path;
  };
  std::vector<File> files;
  contents_ = {};
  std::error_code error;
  const fs::file_time_type now = fs::file_time_type::clock::now();
  for (fs::directory_iterator entry(folder_, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code gone;  // another program may have deleted the file
    if (!is_ours(name) || fs::symlink_status(entry->path(), gone).type() != fs::file_type::regular) continue;
    File file{.used = fs::last_write_time(entry->path(), gone),
              .bytes = fs::file_size(entry->path(), gone),
              .path = entry->path()};
    if (gone) continue;
    const bool unfinished = name.find(kUnfinished) != std::string::npos;
    if (unfinished && now - file.used > kOldestUnfinished) {
      fs::remove(file.path, gone);
      continue;
    }
    contents_.bytes += file.bytes;
    if (unfinished) continue;
    ++contents_.n_files;
    files.push_back(std::move(file));
  }
  tidied_ = true;
  written_since_tidy_ = 0;
  if (contents_.bytes + n_needed <= max_bytes_) return contents_;
  const uint64_t allowed = max_bytes_ - std::min(max_bytes_, std::max(max_bytes_ / kFreedShare, n_needed));
  std::ranges::sort(files, {}, &File::used);
  for (const File& file : files) {
    if (contents_.bytes <= allowed) break;
    std::error_code gone;
    if (!fs::remove(file.path, gone) && gone) continue;
    contents_.bytes -= file.bytes;
    --contents_.n_files;
  }
  return contents_;
}

}  // namespace hearth
