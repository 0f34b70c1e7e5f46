// The system's measurements of this process, under the names that Prometheus clients use.
#pragma once

#include <cstdint>
#include <filesystem>

namespace hearth {

struct ProcessFigures {
  double cpu_seconds = 0;         // in user and system mode
  double start_unix_seconds = 0;  // 0 if unknown
  uint64_t resident_bytes = 0, virtual_bytes = 0;
  uint64_t n_threads = 0, n_open_files = 0, max_open_files = 0;
};

/// Reads /proc. Values that cannot be read stay 0. May be called on any thread.
ProcessFigures read_process_figures(const std::filesystem::path& proc = "/proc");

}  // namespace hearth
