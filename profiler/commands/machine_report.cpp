// See the header.
#include "profiler/commands/machine_report.h"

#include <spdlog/fmt/fmt.h>

#include <nlohmann/json.hpp>

namespace hearth {
namespace {

using Json = nlohmann::ordered_json;

std::string gb_per_s(double bytes_per_s) { return fmt::format("{:.1f} GB/s", bytes_per_s / 1e9); }

std::string multiply_adds(double per_s) {
  return fmt::format("{:.4g} G multiply-adds/s in prompts", per_s / 1e9);
}

std::string gpu_text(const GpuProfile& gpu) {
  return fmt::format(
      "gpu        {}, compute capability {}.{}, {:.1f} GB\n"
      "  memory   {}\n"
      "  pcie     to it {} pinned, {} pageable; from it {} and {}\n"
      "  latency  {:.2f} us from kernel to kernel, {:.1f} us to the CPU and back\n"
      "  compute  {}\n",
      gpu.name, gpu.compute_major, gpu.compute_minor, static_cast<double>(gpu.vram_bytes) / 1e9,
      gb_per_s(gpu.vram_bytes_per_s), gb_per_s(gpu.to_device_pinned_bytes_per_s),
      gb_per_s(gpu.to_device_pageable_bytes_per_s), gb_per_s(gpu.from_device_pinned_bytes_per_s),
      gb_per_s(gpu.from_device_pageable_bytes_per_s), gpu.launch_s * 1e6, gpu.round_trip_s * 1e6,
      multiply_adds(gpu.multiply_adds_per_s));
}

Json gpu_json(const GpuProfile& gpu) {
  return {{"name", gpu.name},
          {"compute_capability", fmt::format("{}.{}", gpu.compute_major, gpu.compute_minor)},
          {"vram_bytes", gpu.vram_bytes},
          {"vram_bytes_per_s", gpu.vram_bytes_per_s},
          {"to_device_pinned_bytes_per_s", gpu.to_device_pinned_bytes_per_s},
          {"to_device_pageable_bytes_per_s", gpu.to_device_pageable_bytes_per_s},
          {"from_device_pinned_bytes_per_s", gpu.from_device_pinned_bytes_per_s},
          {"from_device_pageable_bytes_per_s", gpu.from_device_pageable_bytes_per_s},
          {"launch_s", gpu.launch_s},
          {"round_trip_s", gpu.round_trip_s},
          {"multiply_adds_per_s", gpu.multiply_adds_per_s}};
}

}  // namespace

std::string machine_text(const MachineProfile& machine) {
  const HostProfile& host = machine.host;
  std::string text =
      fmt::format("cpu        {}, {} core{}, {} NUMA node{}\n", host.cpu, host.n_cores,
                  host.n_cores == 1 ? "" : "s", host.n_numa_nodes, host.n_numa_nodes == 1 ? "" : "s");
  text += fmt::format("  memory   {:.1f} GB;", static_cast<double>(host.ram_bytes) / 1e9);
  for (const ReadRate& rate : host.ram_read) {
    text += fmt::format("{} {} with {} thread{}", &rate == host.ram_read.data() ? "" : ",",
                        gb_per_s(rate.bytes_per_s), rate.n_threads, rate.n_threads == 1 ? "" : "s");
  }
  text += "\n";
  for (size_t node = 0; node < host.numa_read_bytes_per_s.size(); ++node) {
    text +=
        fmt::format("  node {:<3} {} of its own memory\n", node, gb_per_s(host.numa_read_bytes_per_s[node]));
  }
  text += fmt::format("  neurons  scattered rows are read at {:.0f} % of that\n  compute  {}\n",
                      100 * host.sparse_row_share, multiply_adds(host.multiply_adds_per_s));
  return text + (machine.gpu ? gpu_text(*machine.gpu) : "gpu        none\n");
}

std::string machine_json(const KnownMachine& known) {
  const HostProfile& host = known.machine.host;
  Json read = Json::array();
  for (const ReadRate& rate : host.ram_read) {
    read.push_back({{"threads", rate.n_threads}, {"bytes_per_s", rate.bytes_per_s}});
  }
  Json json = {{"name", known.machine.name},
               {"host",
                {{"cpu", host.cpu},
                 {"cores", host.n_cores},
                 {"numa_nodes", host.n_numa_nodes},
                 {"ram_bytes", host.ram_bytes},
                 {"ram_read", read},
                 {"numa_read_bytes_per_s", host.numa_read_bytes_per_s},
                 {"sparse_row_share", host.sparse_row_share},
                 {"multiply_adds_per_s", host.multiply_adds_per_s}}}};
  json["gpu"] = known.machine.gpu ? gpu_json(*known.machine.gpu) : Json(nullptr);
  json["measured_now"] = known.measured_now;
  json["file"] = known.file.empty() ? Json(nullptr) : Json(known.file.string());
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace hearth
