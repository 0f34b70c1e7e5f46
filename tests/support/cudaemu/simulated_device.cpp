// Implements kernels/cuda/ops/simulated_device.h for programs that run on the emulator.
#include "kernels/cuda/ops/simulated_device.h"

#include <utility>

#include "tests/support/cudaemu/simulation.h"

namespace hearth::cuda {

using cudaemu::is_simulated;

bool can_simulate() { return true; }
bool device_is_simulated() { return is_simulated(); }

bool simulate_device(const SimulatedSpeeds& speeds, Trace* trace) {
  cudaemu::start_simulation(speeds, trace);
  return true;
}

SimulatedUse simulated_use() { return is_simulated() ? cudaemu::simulation_use() : SimulatedUse(); }

double simulated_kernels_between(double begin, double end) {
  return is_simulated() ? cudaemu::simulation_kernels_between(begin, end) : 0;
}

void reset_simulated() {
  if (is_simulated()) cudaemu::reset_simulation();
}

void wait_simulated(const uint32_t& word) {
  if (is_simulated()) cudaemu::wait_for_release(&word);
}

void set_simulated_results(const SimulatedResults& results) {
  if (is_simulated()) cudaemu::simulation_results() = results;
}

void simulate_product(const SimulatedProduct& product) {
  if (is_simulated() && cudaemu::simulation_results().product) cudaemu::simulation_results().product(product);
}

bool simulate_route(const SimulatedRoute& route) {
  if (!is_simulated() || !cudaemu::simulation_results().route) return false;
  cudaemu::simulation_results().route(route);
  return true;
}

}  // namespace hearth::cuda
