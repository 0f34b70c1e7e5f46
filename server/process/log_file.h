// The file of --log-file: lines are appended, and a disk that is full stops nothing.
//
// Any thread may write. A line that cannot be written is dropped and counted; once lines can be written again, the first
// one says how many are missing and why.
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
  /// The whole line, with its end, that says how many lines were dropped and why.
  using DroppedLine = std::function<std::string(uint64_t n_dropped, const std::string& why)>;

  /// Makes the file if it does not exist. Throws StartError.
  LogFile(std::string path, DroppedLine dropped_line);

  /// line: with its end. Never throws, never waits for a reader.
  void write(std::string_view line);
  /// Opens the path anew, for programs that move log files away (logrotate). If that fails, the file of before stays in use,
  /// and the sentence that says why is returned.
  std::optional<std::string> reopen();

 private:
  bool put(std::string_view bytes) HEARTH_REQUIRES(mutex_);

  const std::string path_;
  const DroppedLine dropped_line_;
  Mutex mutex_;
  UniqueFd fd_ HEARTH_GUARDED_BY(mutex_);
  uint64_t n_dropped_ HEARTH_GUARDED_BY(mutex_) = 0;
  int error_ HEARTH_GUARDED_BY(mutex_) = 0;         // of the last line that was dropped
  bool is_torn_ HEARTH_GUARDED_BY(mutex_) = false;  // the file ends within a line
};

}  // namespace hearth
