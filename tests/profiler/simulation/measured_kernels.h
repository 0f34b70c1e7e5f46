// Compares kernel times measured on a GPU with the times that the simulation assumes for the same kernels.
//
// A folder has the measurements of one machine: kernels.json of `hearth-profiler bench --kernels --json`, and
// probe.json of `hearth-profiler probe --json`. The simulation uses that machine's own figures, so
// differences come from the table in engine/placement/kernel_costs.h or from what a kernel declares. For
// programs on the emulator only.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace hearth::test {

/// A class of kernels that is simulated too fast or too slow.
struct WrongClass {
  std::string name;
  double ratio = 0;    // simulated over measured seconds: the median of the class's kernels
  std::string kernel;  // the kernel that is farthest off, for people
};

struct KernelComparison {
  int n_compared = 0;  // kernels
  std::vector<WrongClass> wrong;
};

/// Compares each class's kernels. within: the share by which a class's median may be off in either direction.
/// Throws std::runtime_error if a file is missing or has other keys, or if no kernel is in both.
KernelComparison compare_kernels(const std::filesystem::path& folder, double within);

/// Returns a line for each wrong class, for people.
std::string comparison_text(const KernelComparison& comparison);

}  // namespace hearth::test
