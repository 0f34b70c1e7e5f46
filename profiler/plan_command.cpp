// Options of the plan subcommand, and the order of its work: model, machine, activity, solve, tell.
#include "profiler/plan_command.h"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>

#include "config/environment.h"
#include "config/suggest.h"
#include "engine/model_runtime.h"
#include "profiler/activity_csv.h"
#include "profiler/machine/known_machine.h"
#include "profiler/machine/shipped_machines.h"
#include "profiler/placement/activity_beside.h"
#include "profiler/placement/plan_answer.h"
#include "profiler/progress_line.h"
#include "profiler/text_io.h"

namespace hearth {
namespace {

struct PlanCommand {
  std::string model, shape, type = "q4_0", ffn_activation, machine, activity_file, sparsity = "auto";
  std::optional<double> vram_gib, ram_gib, active;
  int context = 0, slots = 1, chunk = 128;
  bool json = false;
};

constexpr double kMaxGib = 1 << 20;

/// "did you mean" where a name is close to one of those there are.
std::string suggestion(const std::string& name, const std::vector<std::string>& names) {
  const std::optional<std::string> near = closest_name(name, names);
  return near ? " Did you mean " + *near + "?" : "";
}

PlannedModel find_model(const PlanCommand& command) {
  if (command.model.empty() == command.shape.empty()) {
    throw std::runtime_error(
        "plan needs --model FILE or --shape NAME, one of the two; shapes: " + shape_names() + ".");
  }
  if (!command.model.empty()) return model_of_file(command.model, command.ffn_activation);
  const ModelShape* shape = find_shape(command.shape);
  if (shape == nullptr) {
    std::vector<std::string> names;
    for (const ModelShape& known : model_shapes()) {
      names.emplace_back(known.name);
      if (known.architecture == "llama") names.push_back("llama-" + names.back());
    }
    throw std::runtime_error("There is no shape \"" + command.shape + "\", expected one of " + shape_names() +
                             "." + suggestion(command.shape, names));
  }
  const std::optional<DType> type = dtype_of_name(command.type);
  if (!type) {
    std::string known;
    for (const std::string& name : dtype_names()) known += (known.empty() ? "" : ", ") + name;
    throw std::runtime_error("There is no type \"" + command.type + "\", expected one of " + known + "." +
                             suggestion(command.type, dtype_names()));
  }
  return model_of_shape(*shape, *type, command.ffn_activation);
}

/// The named one, or the one that this runs on.
MachineProfile find_machine(const PlanCommand& command) {
  if (!command.machine.empty()) {
    try {
      return machine_named(command.machine);
    } catch (const std::runtime_error& error) {
      std::vector<std::string> names;
      for (const ShippedMachine& shipped : shipped_machines()) names.emplace_back(shipped.name);
      throw std::runtime_error(error.what() + suggestion(command.machine, names));
    }
  }
  ProgressLine line("Measuring");
  std::optional<KnownMachine> known = known_machine(
      process_environment(), false,
      {.progress = [&line](double fraction, std::string_view what) { line.update(fraction, what); },
       .stop = {}});
  for (const std::string& note : known->notes) std::fprintf(stderr, "%s\n", note.c_str());
  return std::move(known->machine);
}

std::optional<ModelActivity> find_counts(const PlanCommand& command, const PlannedModel& model) {
  const ModelSpec& spec = model.spec;
  if (!command.activity_file.empty()) {
    const ActivityTable table =
        parse_activity_csv(read_text(command.activity_file, "--activity"), command.activity_file);
    ActivityProfile profile;
    for (const std::vector<uint64_t>& counts : table.counts)
      profile.counts.emplace_back(counts.begin(), counts.end());
    const bool same = static_cast<int>(profile.counts.size()) == spec.n_layers &&
                      static_cast<int>(profile.counts.front().size()) == spec.d_ff;
    if (!same) {
      throw std::runtime_error(
          fmt::format("{}: counts {} layers of {} neurons, but {} has {} of {}; count the model itself "
                      "(hearth-profiler perplexity "
                      "--activity).",
                      command.activity_file, profile.counts.size(), profile.counts.front().size(), model.name,
                      spec.n_layers, spec.d_ff));
    }
    return counted_activity(profile, static_cast<double>(table.n_tokens), 0,
                            "as counted in " + command.activity_file);
  }
  if (command.model.empty()) return std::nullopt;
  std::string sentence;
  std::optional<ModelActivity> beside = activity_beside(command.model, spec, command.active, &sentence);
  if (!sentence.empty()) std::fprintf(stderr, "%s\n", sentence.c_str());
  return beside;
}

int run_plan(const PlanCommand& command) {
  const PlannedModel model = find_model(command);
  const int possible = model.spec.context_train;
  if (command.context > possible) {
    throw std::runtime_error(
        fmt::format("A context of {} tokens was asked for, but {} was trained on {}, which is the most "
                    "it can have.",
                    command.context, model.name, possible));
  }
  constexpr int kContext = 4096;
  PlanQuestion question{
      .model = model,
      .machine = find_machine(command),
      .vram_bytes = std::nullopt,
      .ram_bytes = std::nullopt,
      .load = {.context_tokens = command.context > 0 ? command.context : std::min(kContext, possible),
               .n_slots = command.slots,
               .prefill_chunk = command.chunk},
      .modes = {},
      .activity = find_counts(command, model),
      .active = command.active,
      .assumptions = {}};
  if (command.vram_gib) {
    if (!question.machine.gpu) {
      throw std::runtime_error("--vram-budget was given, but " + question.machine.name +
                               " has no GPU; name a machine with "
                               "one (--machine " +
                               shipped_machine_names() + ").");
    }
    question.vram_bytes = static_cast<int64_t>(*command.vram_gib * (1 << 30));
    // A budget says what is to be looked at, also beyond what such a card has.
  }
  if (command.ram_gib) question.ram_bytes = static_cast<int64_t>(*command.ram_gib * (1 << 30));
  for (const Sparsity mode : model.modes()) {
    if (sparsity_name(mode) == command.sparsity) question.modes.push_back(mode);
  }
  if (question.modes.empty() && command.sparsity != "auto") {
    throw std::runtime_error(model.name + " cannot run " + command.sparsity + ": it has no " +
                             (command.sparsity == "predicted" ? "predictors" : "zeros to skip") +
                             "; take --sparsity auto.");
  }
  const PlanAnswer answer = answer_plan(question);
  print_result(command.json ? plan_json(question, answer) : plan_text(question, answer));
  return 0;
}

}  // namespace

std::function<int()> add_plan_command(CLI::App& app) {
  const auto command = std::make_shared<PlanCommand>();
  CLI::App* plan = app.add_subcommand(
      "plan", "What of a model would live where on a machine, how fast it would be, and what would help");
  plan->add_option("--model,-m", command->model, "GGUF model file; its weights are not read")
      ->type_name("FILE");
  plan->add_option("--shape", command->shape, "Or a shape without a file: " + shape_names())
      ->type_name("NAME");
  plan->add_option("--type", command->type, "Of a shape's weights: q4_0, q4_k, q8_0, f16, ...")
      ->capture_default_str()
      ->type_name("NAME");
  plan->add_option(
          "--ffn-activation", command->ffn_activation,
          "FFN activation where the file does not say it, or of a shape (not given: relu, as ReluLLaMA)")
      ->type_name("NAME");
  plan->add_option("--machine", command->machine,
                   "Machine to plan for: " + shipped_machine_names() +
                       ", or a file of hearth-profiler probe --toml; not given: this one")
      ->type_name("NAME|FILE");
  plan->add_option("--vram-budget", command->vram_gib, "GiB of the GPU's memory; not given: what it has")
      ->type_name("GIB")
      ->check(CLI::Range(0.0, kMaxGib));
  plan->add_option("--ram-budget", command->ram_gib, "GiB of RAM; not given: what the machine has, less 5 %")
      ->type_name("GIB")
      ->check(CLI::Range(0.0, kMaxGib));
  plan->add_option("--context,-c", command->context,
                   "Tokens of a sequence; not given: what it was trained on, at most 4096")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20));
  plan->add_option("--slots", command->slots, "Sequences at once")
      ->capture_default_str()
      ->type_name("N")
      ->check(CLI::Range(1, 4096));
  plan->add_option("--chunk", command->chunk, "Prompt tokens per step")
      ->capture_default_str()
      ->type_name("N")
      ->check(CLI::Range(1, 8192));
  plan->add_option("--sparsity", command->sparsity, "Mode; auto: the fastest of those that the model has")
      ->capture_default_str()
      ->type_name("MODE")
      ->check(CLI::IsMember({"auto", "exact", "predicted", "dense"}));
  plan->add_option("--activity", command->activity_file,
                   "Counts of the model's neurons (CSV of hearth-profiler perplexity --activity); not given: "
                   "those beside "
                   "the model, or what was published for its kind")
      ->type_name("FILE");
  plan->add_option("--active", command->active,
                   "Share of neurons that are active, where no counts of tokens tell it")
      ->type_name("SHARE")
      ->check(CLI::Range(0.001, 0.9));
  plan->add_flag("--json", command->json, "Print one JSON object");
  return [command] { return run_plan(*command); };
}

}  // namespace hearth
