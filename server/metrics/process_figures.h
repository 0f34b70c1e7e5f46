// Measurements of this process by the operating system, under the names that Prometheus' client libraries
// use.
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

/// Reads /proc. Values that cannot be read are 0. Any thread may call it.
ProcessFigures read_process_figures(const std::filesystem::path& proc = "/proc");

}  // namespace hearth
