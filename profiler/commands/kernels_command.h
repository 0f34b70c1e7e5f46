// `bench --kernels`: measures each kernel by itself, on this machine's GPU or, with --simulate, on a
// simulated one.
#pragma once

#include <string>
#include <vector>

namespace hearth {

struct KernelsCommand {
  std::string machine;              // machine to simulate; empty: measure this machine's GPU
  std::vector<std::string> shapes;  // names; empty: 7b and 70b
  std::string type;                 // type of weights; empty: all types that have kernels
  int n_prompt = 128, n_runs = 5;
  bool json = false;
};

/// Measures and prints. Throws std::runtime_error (one sentence) if there is no GPU or a name is unknown, and
/// what CUDA throws. Like run_simulate_command(), does not return if another program has to simulate.
int run_kernels_command(const KernelsCommand& command);

}  // namespace hearth
