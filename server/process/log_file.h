// The file of --log-file. Lines are appended; a full disk does not stop the server.
//
// Any thread may write. A line that cannot be written is dropped and counted. Before the next line that can
// be written, one line reports how many lines are missing and why.
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
  /// Returns the log line that reports how many lines were dropped and why. The line includes its line end.
  using DroppedLine = std::function<std::string(uint64_t n_dropped, const std::string& why)>;

  /// Creates the file if it does not exist. Throws StartError.
  LogFile(std::string path, DroppedLine dropped_line);

  /// line: the text including its end of line. Never throws, and never waits for a reader.
  void write(std::string_view line);
  /// Reopens the path, for programs that move log files away (logrotate). If this fails, keeps using the old
  /// file and returns the reason as a sentence.
  std::optional<std::string> reopen();

 private:
  bool put(std::string_view bytes) HEARTH_REQUIRES(mutex_);

  const std::string path_;
  const DroppedLine dropped_line_;
  Mutex mutex_;
  UniqueFd fd_ HEARTH_GUARDED_BY(mutex_);
  uint64_t n_dropped_ HEARTH_GUARDED_BY(mutex_) = 0;
  int error_ HEARTH_GUARDED_BY(mutex_) = 0;         // error number of the last dropped line
  bool is_torn_ HEARTH_GUARDED_BY(mutex_) = false;  // whether the file ends inside a line
};

}  // namespace hearth
