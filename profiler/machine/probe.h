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
  /// Called between measurements, some tenths of a second apart, with the fraction that is done and the name
  /// of the next measurement.
  std::function<void(double fraction, std::string_view what)> progress;
  std::stop_token stop;
};

struct Probe {
  MachineProfile machine;
  /// Sentences about figures that could not be measured, or only inaccurately.
  std::vector<std::string> notes;
  /// False: a temporary problem (for example, the GPU had no free memory) prevented measurements, and another
  /// probe may find more.
  bool complete = true;
};

/// Measures everything, using a few hundred megabytes of RAM and of the GPU's memory, or less if memory is
/// short. Returns nullopt if it was told to stop. If the GPU fails, leaves it out and adds a note. Throws
/// std::bad_alloc, or std::system_error if the system grants no threads.
std::optional<Probe> probe_machine(const Hardware& hardware, const ProbeOptions& options);

/// The numbers of threads with which reading is measured: 1, 2, 4 and so on, up to n_cores.
std::vector<int> thread_counts(int n_cores);

}  // namespace hearth
