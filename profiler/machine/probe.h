// Measures what this machine can do, the figures of a MachineProfile, in a few seconds.
#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/machine/hardware.h"
#include "profiler/machine/machine_profile.h"

namespace hearth {

struct ProbeOptions {
  /// Called between measurements, some tenths of a second apart, with the fraction that is done and what
  /// comes next.
  std::function<void(double fraction, std::string_view what)> progress;
  std::stop_token stop;
};

struct Probe {
  MachineProfile machine;
  /// Sentences about what could not be measured, or only badly.
  std::vector<std::string> notes;
  /// False: something was in the way (for example, the GPU had no free memory), and another probe may find
  /// more.
  bool complete = true;
};

/// Measures everything, with a few hundred megabytes of RAM and of the GPU's memory, or fewer if memory is
/// short. nullopt: it was told to stop. A GPU that fails is left out, with a note. Throws std::bad_alloc, or
/// std::system_error if the system grants no threads.
std::optional<Probe> probe_machine(const Hardware& hardware, const ProbeOptions& options);

/// The numbers of threads with which reading is measured: 1, 2, 4 and so on, up to n_cores.
std::vector<int> thread_counts(int n_cores);

}  // namespace hearth
