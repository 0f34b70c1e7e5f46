// Implements `bench --simulate`: finds the model, the machine and the activity, runs the simulation, and
// prints the result.
#include "profiler/commands/simulate_command.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <vector>

#include "config/command_options.h"
#include "profiler/engine_options.h"
#include "profiler/machine/shipped_machines.h"
#include "profiler/options/named_model.h"
#include "profiler/options/terminal.h"
#include "profiler/plan/plan_answer.h"
#include "profiler/simulation/simulation.h"

namespace hearth {
namespace {

/// Returns the sparsity mode to simulate. If the options allow several modes, returns the one that is fastest
/// according to the planner's formulas.
Sparsity chosen_mode(const PlanQuestion& question) {
  // in a mixture, all weights outside the experts are dense
  if (question.model.spec.has_experts()) return Sparsity::kDense;
  if (question.modes.size() == 1) return question.modes.front();
  return answer_plan(question).best.mode;
}

}  // namespace

void run_simulator() {
  const std::filesystem::path program = simulation_program(std::filesystem::read_symlink("/proc/self/exe"));
  std::ifstream line("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(line, argument, '\0');) arguments.push_back(argument);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  execv(program.c_str(), argv.data());
  throw std::runtime_error("--simulate needs the program " + program.string() + ", which does not start (" +
                           std::strerror(errno) +
                           "): it is built where CUDA's headers are found (docker/install-deps.sh test).");
}

void add_simulate_options(CLI::App& bench, SimulateCommand& command, ModelOptions& options) {
  bench
      .add_option(
          "--simulate", command.plan.machine,
          "Instead, simulate this machine and the engine's schedule on it: " + shipped_machine_names() +
              ", or a file of hearth-profiler probe --toml; kernels take time and compute nothing")
      ->type_name("NAME|FILE");
  bench
      .add_option("--shape", command.shape,
                  "With --simulate, a shape instead of a model file; with --kernels, the shape whose kernels "
                  "are timed (7b and 70b): " +
                      shape_names())
      ->type_name("NAME");
  command.type_option =
      bench.add_option("--type", command.type, "Type of a shape's weights: q4_0, q4_k, q8_0, f16, ...")
          ->capture_default_str()
          ->type_name("NAME");
  add_choice_options(bench, command.choice, "With --simulate: ");
  add_options(bench, {"context", "kv-contexts"}, options);
  command.plan.sparsity = bench.get_option("--sparsity");
  command.placement = bench.get_option("--placement");
  command.split = bench.get_option("--split");
}

int run_simulate_command(const SimulateCommand& command, const ModelOptions& options,
                         const BenchOptions& bench, bool generate_given, bool json) {
  if (!can_simulate()) run_simulator();
  const PlannedModel model =
      named_model(options.model, options.ffn_activation, command.shape, command.type, "bench --simulate");
  command.choice.check(model.spec.has_experts(), model.name);
  PlanQuestion question = plan_question(command.plan, options, model);
  add_machine(command.plan, question);
  if (!question.machine.gpu) {
    throw std::runtime_error(
        question.machine.name +
        " has no GPU for this model, and only GPUs are simulated; name another machine (" +
        shipped_machine_names() + ").");
  }
  const KnownCounts known = find_counts(command.plan, model);
  question.activity = known.model;
  std::optional<TraceFile> timeline;
  if (!options.trace.empty()) timeline.emplace(options.trace);
  SimulatedLoad load{
      .model = model,
      .machine = question.machine,
      .mode = chosen_mode(question),
      .load = question.load,
      .vram_bytes = question.vram_bytes.value_or(usable_vram(question.machine.gpu->vram_bytes)),
      .ram_bytes = question.ram_bytes.value_or(usable_ram(question.machine.host.ram_bytes)),
      .activity = question.activity,
      .expert_counts = known.counted && model.spec.has_experts() ? known.counted->total() : ActivityCounts(),
      .choices = command.choice.law(),
      .assumptions = question.assumptions,
      .solve = command.solves(),
      .split = engine_split(options.split),
      .prefetch = !options.no_prefetch,
      .graphs = !options.no_graphs,
      .trace = timeline ? &timeline->trace() : nullptr};
  SimulationOptions how{.n_prompt = bench.n_prompt};
  if (generate_given) how.n_generate = bench.n_generate;
  SimulationResult result;
  {
    ProgressLine line("Simulating");
    result = simulate(load, how, [&line](double fraction) { line.update(fraction); });
  }
  if (timeline) timeline->write();
  print_result(json ? simulation_json(load, how, result) : simulation_text(load, how, result));
  return 0;
}

}  // namespace hearth
