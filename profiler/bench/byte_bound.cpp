// Evaluates the formula of the byte bound.
#include "profiler/bench/byte_bound.h"

#include <algorithm>

namespace hearth {
namespace {

/// Reading zero bytes takes no time, even if the bandwidth is 0.
double seconds(double bytes, double bytes_per_s) { return bytes > 0 ? bytes / bytes_per_s : 0; }

}  // namespace

double least_seconds(const TokenBytes& bytes, const MachineBandwidth& bandwidth, bool cpu_share) {
  const double cold_bytes_per_s =
      cpu_share ? bandwidth.ram
                : std::min(bandwidth.ram, bandwidth.pcie);  // B_cold of the formula in byte_bound.h
  const double neurons =
      std::max(seconds(bytes.device_neurons, bandwidth.vram), seconds(bytes.cold_neurons, cold_bytes_per_s));
  return seconds(bytes.device_whole, bandwidth.vram) + neurons + seconds(bytes.host_whole, bandwidth.ram);
}

}  // namespace hearth
