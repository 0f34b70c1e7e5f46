// Queries the hardware, and formats its identity.
#include "profiler/machine/hardware.h"

#include <spdlog/fmt/fmt.h>

#include <variant>

#include "engine/residency/memory_limit.h"
#include "kernels/cpu/threads/thread_pool.h"
#include "kernels/cpu/threads/topology.h"

namespace hearth {
namespace {

/// Converts a name that the system reports to one line of printable ASCII.
std::string plain(const std::string& text) {
  constexpr size_t kMaxBytes = 120;
  std::string line = text.substr(0, kMaxBytes);
  for (char& c : line) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  return line;
}

}  // namespace

Hardware hardware_here() {
  Hardware found;
  found.cpu = plain(processor_name());
  found.processors = allowed_cpus();
  found.n_cores = default_thread_count();
  found.numa_nodes = cpus_by_numa_node(one_cpu_per_core(found.processors));
  found.ram_bytes = memory_limit_bytes();
  found.isa = supported_isas().front();
  std::variant<cuda::Device, std::string> gpu = cuda::probe();
  if (std::holds_alternative<cuda::Device>(gpu)) {
    found.gpu = std::get<cuda::Device>(gpu);
    found.gpu->name = plain(found.gpu->name);
  } else {
    found.no_gpu = std::get<std::string>(gpu);
  }
  return found;
}

std::string identity_of(const Hardware& hardware) {
  // Round, because the memory that the system's kernel reserves varies by some megabytes from boot to boot.
  const uint64_t ram_gib = (hardware.ram_bytes + (uint64_t{1} << 29)) >> 30;
  std::string text =
      fmt::format("cpu: {}\ninstructions: {}\nprocessors: {}\ncores: {}\nnuma nodes: {}\nram: {} GiB\n",
                  hardware.cpu, isa_name(hardware.isa), fmt::join(hardware.processors, " "), hardware.n_cores,
                  hardware.numa_nodes.size(), ram_gib);
  if (!hardware.gpu) return text + "gpu: none\n";
  const cuda::Device& gpu = *hardware.gpu;
  return text +
         fmt::format(
             "gpu: {}\ngpu number: {}\ngpu place: {}\ngpu memory: {} bytes\ncuda: driver {}, runtime {}\n",
             gpu.name, gpu.uuid, gpu.bus_id, gpu.total_bytes, text_of(gpu.driver), text_of(gpu.runtime));
}

}  // namespace hearth
