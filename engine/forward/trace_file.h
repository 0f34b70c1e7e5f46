// A trace and the file that it is written to at the end. For programs with the option --trace.
#pragma once

#include <filesystem>
#include <fstream>

#include "kernels/trace.h"

namespace hearth {

class TraceFile {
 public:
  /// Creates or empties the file, so that a path that cannot be written is reported before tracing begins.
  /// Throws std::runtime_error (one sentence).
  explicit TraceFile(std::filesystem::path path);

  /// The trace that spans are added to, by any thread.
  Trace& trace() { return trace_; }

  /// Writes the trace, once. Throws std::runtime_error (one sentence).
  void write();

 private:
  std::filesystem::path path_;
  std::ofstream out_;
  Trace trace_;
};

}  // namespace hearth
