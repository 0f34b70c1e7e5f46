// Implements simulated_device.h for programs without the emulator. They cannot simulate a device.
#include "kernels/cuda/ops/simulated_device.h"

namespace hearth::cuda {

bool simulate_device(const SimulatedSpeeds& /*speeds*/, Trace* /*trace*/) { return false; }
bool can_simulate() { return false; }
bool device_is_simulated() { return false; }
SimulatedUse simulated_use() { return {}; }
void reset_simulated() {}
double simulated_kernels_between(double /*begin*/, double /*end*/) { return 0; }
void wait_simulated(const uint32_t& /*word*/) {}
void set_simulated_results(const SimulatedResults& /*results*/) {}
void simulate_product(const SimulatedProduct& /*product*/) {}
bool simulate_route(const SimulatedRoute& /*route*/) { return false; }

}  // namespace hearth::cuda
