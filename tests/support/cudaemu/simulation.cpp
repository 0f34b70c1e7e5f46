// Keeps the virtual time of the simulated device, and computes when its work ends.
#include "tests/support/cudaemu/simulation.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/base/virtual_time.h"
#include "tests/support/cudaemu/control.h"
#include "tests/support/cudaemu/stats.h"
#include "tests/support/cudaemu/stream.h"
#include "tests/support/cudaemu/symbol_name.h"

namespace hearth::cudaemu {
namespace {

/// Copies and fills up to this size are executed, because they move inputs and tables. Larger ones move
/// weights, which nothing reads. Inputs are in pinned memory. From pageable memory, only small tables and
/// weights are copied.
constexpr size_t kMostDone = size_t{1} << 20, kMostPageableDone = size_t{1} << 14;
/// Transfers up to this size share the link with a long one; longer ones wait for each other.
constexpr double kShortTransfer = 256e3;

struct Simulation {
  cuda::SimulatedSpeeds speeds;
  Trace* trace = nullptr;
  bool loaded = false;  // the first step has begun; the trace omits what happened during loading
  cuda::SimulatedUse use;
  double to_device_until = 0, from_device_until = 0;  // when each direction of the link is free
  double running_end = 0;                             // end of the operation under way
  std::vector<std::pair<double, double>>
      kernels;  // (begin, end) of the kernels that simulation_kernels_between() may need
  std::thread::id host = std::this_thread::get_id();  // the thread whose waiting is counted
  std::map<const void*, double> released;             // when each number for the host was stored
  // names of spans, kept because a trace stores their addresses
  std::set<std::string> names;
  cuda::SimulatedResults results;
};
std::optional<Simulation> simulation;

/// Returns the end time of a transfer that could begin at `begin`.
double transfer(double begin, double bytes, double bytes_per_s, double& until, double& busy) {
  if (bytes <= 0) return begin;
  const double seconds = bytes / bytes_per_s;
  busy += seconds;
  if (bytes <= kShortTransfer) {
    const bool shared = until > begin;
    if (shared) until += seconds;
    return begin + (shared ? 2 : 1) * seconds;
  }
  until = std::max(until, begin) + seconds;
  return until;
}

double to_device(double begin, double bytes, double share = 1) {
  Simulation& s = *simulation;
  s.use.to_device_bytes += bytes;
  return transfer(begin, bytes, share * s.speeds.to_device_bytes_per_s, s.to_device_until, s.use.to_device_s);
}

double from_device(double begin, double bytes) {
  Simulation& s = *simulation;
  return transfer(begin, bytes, s.speeds.from_device_bytes_per_s, s.from_device_until, s.use.from_device_s);
}

/// Returns the end time of a kernel that begins launch_s after the previous kernel. The kernel takes the rest
/// of its class's start time, then the time of its work.
double kernel_end(double begin, const cuda::KernelWork& work) {
  Simulation& s = *simulation;
  const auto kind = static_cast<size_t>(work.kind);
  const cuda::KernelSpeed& speed = s.speeds.kernels[kind];
  begin += std::max(speed.start_s - s.speeds.launch_s, 0.0);
  const double seconds =
      std::max({work.bytes / speed.bytes_per_s, work.multiply_adds / speed.multiply_adds_per_s,
                work.instructions / speed.instructions_per_s});
  s.use.bytes += work.bytes;
  ++s.use.n_kernels;
  ++s.use.n_of_class[kind];
  const double share = work.kind == cuda::KernelClass::kGather ? s.speeds.gather_share : 1;
  return std::max(
      {begin + seconds, to_device(begin, work.host_reads, share), from_device(begin, work.host_writes)});
}

double copy_end(double begin, const Operation& operation) {
  const auto bytes = static_cast<double>(operation.n_bytes);
  ++simulation->use.n_copies;
  switch (operation.kind) {
    case WorkKind::kHostToDevice:
      return to_device(begin, bytes);
    case WorkKind::kDeviceToHost:
      return from_device(begin, bytes);
    case WorkKind::kDeviceToDevice:
      return begin + 2 * bytes / simulation->speeds.vram_bytes_per_s;
    case WorkKind::kFill:
      return begin + bytes / simulation->speeds.vram_bytes_per_s;
    default:
      return begin;
  }
}

/// Whether the operation must be executed, because something reads its results.
bool has_readers(const Operation& operation, const cuda::KernelWork& work) {
  switch (operation.kind) {
    case WorkKind::kKernel:
      return work.decides;
    case WorkKind::kDeviceToDevice:  // moves an expert to its slot
      return false;
    default:
      return operation.n_bytes <= (operation.pageable ? kMostPageableDone : kMostDone);
  }
}

void trace_span(const Operation& operation, double begin, double end, double bytes) {
  Simulation& s = *simulation;
  if (s.trace == nullptr || !s.loaded) return;
  const bool over_link =
      operation.kind == WorkKind::kHostToDevice || operation.kind == WorkKind::kDeviceToHost;
  std::string name = operation.kernel == nullptr ? "copy" : symbol_name(operation.kernel);
  if (const size_t space = name.rfind("::"); space != std::string::npos) name = name.substr(space + 2);
  const std::string& kept = *s.names.insert(std::move(name)).first;
  s.trace->add({.track = over_link ? "PCIe" : "GPU",
                .name = kept.c_str(),
                .layer = -1,
                .begin = HostClock::at(begin),
                .end = HostClock::at(end),
                .bytes = static_cast<int64_t>(bytes)});
}

}  // namespace

bool is_simulated() { return simulation.has_value() && VirtualTime::current() != nullptr; }

double simulated_now() { return VirtualTime::current()->now(); }

void wait_simulated_until(double time) {
  if (std::this_thread::get_id() == simulation->host) ++simulation->use.n_waits;
  if (time <= simulated_now()) return;
  VirtualTime::current()->wait_until(time + simulation->speeds.wait_call_s);
}

double simulated_end_of(const Stream& stream) {
  return is_simulated() ? std::max(stream.simulated_end, simulated_now()) : 0;
}

void call_simulated(SimulatedCall call) {
  if (!is_simulated()) return;
  const cuda::SimulatedSpeeds& speeds = simulation->speeds;
  double seconds = speeds.launch_call_s;
  if (call == SimulatedCall::kGraph) {
    seconds = speeds.graph_call_s;
    ++simulation->use.n_graphs;
  }
  if (call == SimulatedCall::kEvent) seconds /= 4;
  VirtualTime::current()->spend(seconds);
}

void simulate(const Operation& operation, cudaStream_t handle) {
  Simulation& s = *simulation;
  Stream& stream = *find_stream(handle);
  const bool kernel = operation.kind == WorkKind::kKernel;
  const double gap = kernel ? s.speeds.launch_s : s.speeds.copy_s;
  const double begin = std::max(stream.simulated_end, simulated_now() + s.speeds.first_kernel_s) + gap;
  cuda::KernelWork work;
  if (kernel && operation.work) work = operation.work();
  const double end = kernel ? kernel_end(begin, work) : copy_end(begin, operation);
  // A kernel that fetches bytes from the host takes few multiprocessors and counts as work of the link.
  const bool brings = work.host_reads > 0 && work.host_reads >= work.bytes;
  if (kernel && !brings) {
    s.use.kernels_s += end - begin;
    s.kernels.emplace_back(begin, end);
  }
  s.running_end = stream.simulated_end = end;
  s.use.to_device_until = s.to_device_until;
  trace_span(operation, begin, end, kernel ? work.bytes : static_cast<double>(operation.n_bytes));
  if (has_readers(operation, work)) {
    operation.run();
  } else if (kernel) {
    count(&Stats::launches);
  }
}

void note_release(const void* word) {
  if (is_simulated()) simulation->released[word] = simulation->running_end;
}

void start_simulation(const cuda::SimulatedSpeeds& speeds, Trace* trace) {
  simulation.emplace();
  simulation->speeds = speeds;
  simulation->trace = trace;
  config().vram_bytes = speeds.vram_bytes;
  config().compute_capability = speeds.compute_capability;
}

const cuda::SimulatedUse& simulation_use() { return simulation->use; }

double simulation_kernels_between(double begin, double end) {
  std::vector<std::pair<double, double>>& kernels = simulation->kernels;
  std::erase_if(kernels, [&](const auto& kernel) { return kernel.second <= begin; });
  double seconds = 0;
  for (const auto& [from, to] : kernels) seconds += std::max(0.0, std::min(to, end) - std::max(from, begin));
  return seconds;
}

void reset_simulation() {
  std::erase_if(simulation->kernels, [](const auto& kernel) { return kernel.second <= simulated_now(); });
  simulation->use = {};
  simulation->use.to_device_until = simulation->to_device_until;
  simulation->loaded = true;
}
cuda::SimulatedResults& simulation_results() { return simulation->results; }

void wait_for_release(const void* word) {
  if (std::this_thread::get_id() == simulation->host) ++simulation->use.n_hand_overs;
  const auto found = simulation->released.find(word);
  if (found == simulation->released.end()) return;
  VirtualTime::current()->wait_until(found->second + simulation->speeds.visible_s);
}

}  // namespace hearth::cudaemu
