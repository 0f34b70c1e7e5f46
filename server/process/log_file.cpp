// See the header.
#include "server/process/log_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "server/process/start_error.h"

namespace hearth {
namespace {

/// Only the owner and the group may read the file, because the lines contain clients' addresses.
constexpr mode_t kMode = 0640;

UniqueFd open_for_appending(const std::string& path) {
  // With O_NONBLOCK, opening a pipe that has no reader fails instead of blocking.
  return UniqueFd(
      ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, kMode));
}

std::string failure(const std::string& path, int error) {
  return path + ": the log file cannot be opened for writing (" + std::strerror(error) +
         "); check --log-file";
}

}  // namespace

LogFile::LogFile(std::string path, DroppedLine dropped_line)
    : path_(std::move(path)), dropped_line_(std::move(dropped_line)), fd_(open_for_appending(path_)) {
  if (!fd_) throw StartError(failure(path_, errno));
}

bool LogFile::put(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      error_ = n < 0 ? errno : ENOSPC;
      return false;
    }
    bytes.remove_prefix(static_cast<size_t>(n));
    is_torn_ = !bytes.empty();
  }
  return true;
}

void LogFile::write(std::string_view line) {
  const MutexLock lock(mutex_);
  const bool goes_on =
      n_dropped_ == 0 || put((is_torn_ ? "\n" : "") + dropped_line_(n_dropped_, std::strerror(error_)));
  if (goes_on) n_dropped_ = 0;
  if (!goes_on || !put(line)) ++n_dropped_;
}

std::optional<std::string> LogFile::reopen() {
  UniqueFd fd = open_for_appending(path_);
  if (!fd) return failure(path_, errno) + "; the log continues in the previous file";
  const MutexLock lock(mutex_);
  fd_ = std::move(fd);
  is_torn_ = false;
  return std::nullopt;
}

}  // namespace hearth
