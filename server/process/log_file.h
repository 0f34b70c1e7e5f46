// The file of --log-file. Lines are appended. A full disk does not stop the server.
//
// Thread-safe. A line that cannot be written is dropped and counted. When writing succeeds again, a line
// reports how many lines were dropped, and why.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/base/mutex.h"
#include "kernels/base/unique_fd.h"

namespace hearth {

class LogFile {
 public:
  /// Returns the log line that reports dropped lines, with its line end.
  using DroppedLine = std::function<std::string(uint64_t n_dropped, const std::string& why)>;

  /// Opens the file, and creates it if necessary. Throws StartError.
  LogFile(std::string path, DroppedLine dropped_line);

  /// line: the text with its line end. Does not throw, and does not wait for a reader.
  void write(std::string_view line);
  /// Opens the path again, because programs such as logrotate move log files away. If this fails, keeps the
  /// old file open and returns a sentence with the reason.
  std::optional<std::string> reopen();

 private:
  bool put(std::string_view bytes) HEARTH_REQUIRES(mutex_);

  const std::string path_;
  const DroppedLine dropped_line_;
  Mutex mutex_;
  UniqueFd fd_ HEARTH_GUARDED_BY(mutex_);
  uint64_t n_dropped_ HEARTH_GUARDED_BY(mutex_) = 0;
  int error_ HEARTH_GUARDED_BY(mutex_) = 0;         // errno of the last dropped line
  bool is_torn_ HEARTH_GUARDED_BY(mutex_) = false;  // whether the file ends inside a line
};

}  // namespace hearth
