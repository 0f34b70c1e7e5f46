// Kernels' times that were measured on a GPU, beside what the simulation takes for the same kernels.
//
// A folder has what was measured on one machine: kernels.json of `hearth-profiler bench --kernels --json`, and probe.json of
// `hearth-profiler probe --json`. The simulation has that machine's own figures, so what differs is the table of
// engine/placement/kernel_costs.h, or what a kernel declares. Programs on the emulator only.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace hearth::test {

/// A class of kernels that is simulated too fast or too slow.
struct WrongClass {
  std::string name;
  double ratio = 0;    // simulated over measured seconds: the median of the class's kernels
  std::string kernel;  // the one that is farthest off, for people
};

struct KernelComparison {
  int n_compared = 0;  // kernels
  std::vector<WrongClass> wrong;
};

/// Compares each class's kernels. within: the share by which a class's median may be off either way. Throws std::runtime_error if
/// a file is missing or has other keys, or if no kernel is in both.
KernelComparison compare_kernels(const std::filesystem::path& folder, double within);

/// For people: a line for each wrong class.
std::string comparison_text(const KernelComparison& comparison);

}  // namespace hearth::test
