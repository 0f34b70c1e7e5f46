// `bench --kernels`: measures each kernel separately, on this machine's GPU or, with --simulate, on a
// simulated GPU.
#pragma once

#include <string>
#include <vector>

namespace hearth {

struct KernelsCommand {
  std::string machine;              // the machine to simulate; if empty, this machine's GPU is measured
  std::vector<std::string> shapes;  // names; empty: 7b and 70b
  std::string type;                 // the type of weights; if empty, all types that have kernels
  int n_prompt = 128, n_runs = 5;
  bool json = false;
};

/// Measures the kernels and prints their times. If the command needs a simulated device and this program has
/// none, calls run_simulator() and does not return. Throws std::runtime_error (one sentence) if there is no
/// GPU or a name is unknown, and passes on CUDA's exceptions.
int run_kernels_command(const KernelsCommand& command);

}  // namespace hearth
