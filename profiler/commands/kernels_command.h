// `bench --kernels`: each kernel by itself, on this machine's GPU or, with --simulate, on one that is not at hand.
#pragma once

#include <string>
#include <vector>

namespace hearth {

struct KernelsCommand {
  std::string machine;              // what is simulated; empty: this machine's GPU is measured
  std::vector<std::string> shapes;  // names; empty: 7b and 70b
  std::string type;                 // of weights; empty: all that the kernels have
  int n_prompt = 128, n_runs = 5;
  bool json = false;
};

/// Measures and prints. Throws std::runtime_error (one sentence) if there is no GPU or a name is not known, and what CUDA
/// throws. Like run_simulate_command(), does not return where another program has to simulate.
int run_kernels_command(const KernelsCommand& command);

}  // namespace hearth
