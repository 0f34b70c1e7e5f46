// A trace and the file it is written to at the end. For programs that are asked for one (--trace).
#pragma once

#include <filesystem>
#include <fstream>

#include "kernels/trace.h"

namespace hearth {

class TraceFile {
 public:
  /// Creates the file, or empties it, so that a path that cannot be written is reported before anything is traced.
  /// Throws std::runtime_error (one sentence).
  explicit TraceFile(std::filesystem::path path);

  /// Where spans are added, by any thread.
  Trace& trace() { return trace_; }

  /// Writes what was traced, once. Throws std::runtime_error, a sentence.
  void write();

 private:
  std::filesystem::path path_;
  std::ofstream out_;
  Trace trace_;
};

}  // namespace hearth
