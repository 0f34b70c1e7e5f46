// See the header.
#include "profiler/machine/rate_text.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "kernels/base/file_error.h"

namespace hearth {

std::string rate_text(double rate) {
  // With three digits, numbers from 999.5 on would be printed with an exponent.
  if (rate >= 999.5) return file_error::with_commas(static_cast<uint64_t>(std::llround(rate)));
  return fmt::format("{:.3g}", rate);
}

std::string rate_text(const ReadRate& rate) {
  std::string text = fmt::format("{:.1f} GB/s", rate.bytes_per_s / 1e9);
  if (rate.slowest_bytes_per_s > 0) {
    text +=
        fmt::format(" ({:.1f} to {:.1f})", rate.slowest_bytes_per_s / 1e9, rate.fastest_bytes_per_s / 1e9);
  }
  return text;
}

std::string read_rate_text(const MachineProfile& machine) {
  return rate_text(*std::ranges::max_element(machine.host.ram_read, {}, &ReadRate::bytes_per_s));
}

std::string time_left_text(double seconds) {
  const long long whole = std::isfinite(seconds) ? std::llround(std::min(std::max(seconds, 0.0), 1e9)) : 0;
  char text[64];
  if (whole < 60) {
    std::snprintf(text, sizeof(text), "%lld s", whole);
  } else if (whole < 3600) {
    std::snprintf(text, sizeof(text), "%lld min %02lld s", whole / 60, whole % 60);
  } else {
    std::snprintf(text, sizeof(text), "%lld h %02lld min", whole / 3600, whole / 60 % 60);
  }
  return text;
}

}  // namespace hearth
