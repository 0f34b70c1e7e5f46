// Measures this machine's MachineProfile in a few seconds.
#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "engine/placement/machine_profile.h"
#include "profiler/machine/hardware.h"

namespace hearth {

struct ProbeOptions {
  /// Called between measurements, which take some tenths of a second each, with the completed fraction and
  /// the name of the next measurement.
  std::function<void(double fraction, std::string_view what)> progress;
  std::stop_token stop;
};

struct Probe {
  MachineProfile machine;
  /// Sentences about figures that could not be measured or are inaccurate.
  std::vector<std::string> notes;
  /// False if a temporary problem prevented measurements (for example, the GPU had no free memory), so that
  /// another probe may measure more.
  bool complete = true;
};

/// Measures the whole profile, using a few hundred megabytes of RAM and of the GPU's memory, or less if
/// memory is short. Returns nullopt if stopped through `options`. If the GPU fails, omits the GPU from the
/// profile and adds a note. Throws std::bad_alloc, or std::system_error if the system cannot create threads.
std::optional<Probe> probe_machine(const Hardware& hardware, const ProbeOptions& options);

/// Returns the numbers of threads for which read rates are measured: 1, 2, 4 and so on, and n_cores.
std::vector<int> thread_counts(int n_cores);

}  // namespace hearth
