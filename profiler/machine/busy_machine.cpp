// See the header.
#include "profiler/machine/busy_machine.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <new>
#include <system_error>

#include "profiler/machine/read_bandwidth.h"

namespace hearth {

double available_share(const MachineProfile& machine) try {
  const auto fastest = std::ranges::max_element(machine.host.ram_read, {}, &ReadRate::bytes_per_s);
  if (fastest == machine.host.ram_read.end() || fastest->bytes_per_s <= 0) return 1;
  return std::min(1.0, ReadBandwidth(fastest->n_threads).measure().now.median / fastest->bytes_per_s);
} catch (const std::bad_alloc&) {
  return 1;
} catch (const std::system_error&) {
  return 1;
}

std::string busy_sentence(double share, double rate) {
  constexpr double kQuiet = 0.8;  // measurements of a quiet machine differ by less
  if (share >= kQuiet) return "";
  return fmt::format("other programs use this machine: its memory is read at {:.0f} of {:.0f} GB/s now",
                     share * rate / 1e9, rate / 1e9);
}

std::string busy_prediction(double share, double rate) {
  const std::string busy = busy_sentence(share, rate);
  return busy.empty() ? "" : busy + fmt::format(", so expect about {:.0f} % of these speeds", 100 * share);
}

std::string busy_measurement(double share, double rate) {
  const std::string busy = busy_sentence(share, rate);
  return busy.empty() ? "" : busy + ", so these speeds are lower than those of a quiet machine";
}

}  // namespace hearth
