// Defines the probe subcommand: measures the machine or reads an earlier measurement, writes the profile and
// reports.
//
// Files are written in one piece, so an interrupted run leaves no partly written file.
#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "config/environment.h"
#include "kernels/base/whole_file.h"
#include "profiler/commands/commands.h"
#include "profiler/machine/busy_machine.h"
#include "profiler/machine/known_machine.h"
#include "profiler/machine/machine_toml.h"
#include "profiler/machine/rate_text.h"
#include "profiler/options/plan_options.h"
#include "profiler/options/terminal.h"

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

/// Returns the profile for people: a few lines, each ended by a newline.
std::string machine_text(const MachineProfile& machine) {
  const HostProfile& host = machine.host;
  std::string text =
      fmt::format("cpu        {}, {} core{}, {} NUMA node{}\n", host.cpu, host.n_cores,
                  host.n_cores == 1 ? "" : "s", host.n_numa_nodes, host.n_numa_nodes == 1 ? "" : "s");
  text += fmt::format("  memory   {:.1f} GB;", static_cast<double>(host.ram_bytes) / 1e9);
  for (const ReadRate& rate : host.ram_read) {
    text += fmt::format("{} {} with {} thread{}", &rate == host.ram_read.data() ? "" : ",", rate_text(rate),
                        rate.n_threads, rate.n_threads == 1 ? "" : "s");
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

/// Returns one JSON object with the keys of the TOML file, "available_share" (busy_machine.h),
/// "measured_now", and "file" (null if the profile is not kept in a file).
std::string machine_json(const KnownMachine& known) {
  const HostProfile& host = known.machine.host;
  Json read = Json::array();
  for (const ReadRate& rate : host.ram_read) {
    read.push_back({{"threads", rate.n_threads}, {"bytes_per_s", rate.bytes_per_s}});
    if (rate.slowest_bytes_per_s > 0) {
      read.back()["slowest_bytes_per_s"] = rate.slowest_bytes_per_s;
      read.back()["fastest_bytes_per_s"] = rate.fastest_bytes_per_s;
    }
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
  json["available_share"] = available_share(known.machine);
  json["measured_now"] = known.measured_now;
  json["file"] = known.file.empty() ? Json(nullptr) : Json(known.file.string());
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

struct ProbeCommand {
  bool json = false, fresh = false;
  std::string toml;  // the file to write; empty for none
};

int run_probe(const ProbeCommand& command) {
  std::optional<KnownMachine> known;
  {
    ProgressLine line("Measuring");
    known = known_machine(
        process_environment(), command.fresh,
        {.progress = [&line](double fraction, std::string_view what) { line.update(fraction, what); },
         .stop = {}});
  }
  for (const std::string& note : known->notes) std::fprintf(stderr, "%s\n", note.c_str());
  if (!command.toml.empty()) write_whole_file(command.toml, machine_toml(known->machine));
  if (command.json) {
    print_result(machine_json(*known));
    return 0;
  }
  std::string text = machine_text(known->machine);
  if (!known->file.empty()) {
    text += std::string(known->measured_now ? "kept       " : "read from  ") + known->file.string() +
            (known->measured_now ? "\n" : " (--fresh measures again)\n");
  }
  print_result(text);
  warn_if_busy(known->machine);
  return 0;
}

}  // namespace

std::function<int()> add_probe_command(CLI::App& app) {
  const auto command = std::make_shared<ProbeCommand>();
  CLI::App* probe = app.add_subcommand(
      "probe", "Measure this machine once, in some seconds, and keep the result: memory, PCIe, arithmetic");
  probe->add_flag("--fresh", command->fresh, "Measure again, even if a result is kept");
  probe->add_flag("--json", command->json, "Print one JSON object");
  probe
      ->add_option("--toml", command->toml,
                   "Write the result to a file that people can edit and --machine reads")
      ->type_name("FILE");
  return [command] { return run_probe(*command); };
}

}  // namespace hearth
