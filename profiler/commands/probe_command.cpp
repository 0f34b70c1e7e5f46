// Options of the probe subcommand, and the order of its work: measure or read back, write, tell.
//
// Files are written in one piece, so a run that is interrupted leaves none behind and none half changed.
#include "profiler/commands/probe_command.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "config/environment.h"
#include "engine/model/whole_file.h"
#include "profiler/commands/machine_report.h"
#include "profiler/commands/progress_line.h"
#include "profiler/commands/text_io.h"
#include "profiler/machine/known_machine.h"

namespace hearth {
namespace {

struct ProbeCommand {
  bool json = false, fresh = false;
  std::string toml;  // a file; empty: none
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
  return 0;
}

}  // namespace

std::function<int()> add_probe_command(CLI::App& app) {
  const auto command = std::make_shared<ProbeCommand>();
  CLI::App* probe = app.add_subcommand(
      "probe",
      "What this machine can do: memory, PCIe, arithmetic; measured once in some seconds, then kept");
  probe->add_flag("--fresh", command->fresh, "Measure again what is kept");
  probe->add_flag("--json", command->json, "Print one JSON object");
  probe
      ->add_option("--toml", command->toml,
                   "Write the figures to a file that people can change and --machine takes")
      ->type_name("FILE");
  return [command] { return run_probe(*command); };
}

}  // namespace hearth
