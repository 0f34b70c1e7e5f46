// Adds the options of plans to a subcommand, and converts them to a PlanQuestion.
#include "profiler/options/plan_options.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "config/command_options.h"
#include "config/environment.h"
#include "kernels/base/file_error.h"
#include "profiler/activity/activity_csv.h"
#include "profiler/engine_options.h"
#include "profiler/machine/busy_machine.h"
#include "profiler/machine/known_machine.h"
#include "profiler/machine/shipped_machines.h"
#include "profiler/options/command_line.h"
#include "profiler/options/terminal.h"
#include "profiler/placement/known_activity.h"
#include "profiler/plan/plan_machine.h"

namespace hearth {
namespace {

constexpr std::string_view kActivityMagic = "HACT";

/// Converts the counts of a CSV table to an Activity, like one from hearth-profiler count.
Activity table_activity(const std::string& text, const std::string& file, const PlannedModel& model) {
  const ModelSpec& spec = model.spec;
  const ActivityTable table = parse_activity_csv(text, file);
  const bool same = static_cast<int>(table.counts.size()) == spec.n_layers &&
                    static_cast<int>(table.counts.front().size()) == spec.d_ff;
  if (!same) {
    throw std::runtime_error(fmt::format(
        "{}: counts {} layers of {} neurons, but {} has {} of {}; count the model itself "
        "(hearth-profiler count).",
        file, table.counts.size(), table.counts.front().size(), model.name, spec.n_layers, spec.d_ff));
  }
  Activity activity;
  activity.model.n_layers = spec.n_layers;
  activity.model.d_ff = spec.d_ff;
  ActivityCounts& counts = activity.of(ActivitySource::kPrompt) = ActivityCounts(spec.n_layers, spec.d_ff);
  counts.n_tokens = static_cast<uint32_t>(table.n_tokens);
  auto active = counts.active.begin();
  for (const std::vector<uint64_t>& layer : table.counts) {
    active = std::ranges::transform(layer, active, [](uint64_t n) { return static_cast<uint32_t>(n); }).out;
  }
  return activity;
}

Activity named_activity(const std::string& file, const PlannedModel& model) {
  const std::string text = read_text(file, "--activity");
  if (!text.starts_with(kActivityMagic)) return table_activity(text, file, model);
  const std::string label = file_error::file_label(file);
  if (!model.file) {
    throw std::runtime_error(label + ": it counts one model's own neurons, and " + model.name +
                             " is a shape without any; give --model its file, or --activity a CSV file.");
  }
  Activity activity = parse_activity(std::as_bytes(std::span(text)), label);
  require_same_model(activity, identify(*model.file, model.spec), label);
  return activity;
}

KnownCounts named_counts(const std::string& file, const PlannedModel& model) {
  KnownCounts known;
  known.counted = named_activity(file, model);
  known.model = model_activity(*known.counted, "as counted in " + file_error::file_label(file));
  if (known.counted->n_tokens() < kLeastTokens) {
    throw std::runtime_error(fmt::format(
        "{}: it counts only {} tokens, and fewer than {} are too few; count more (hearth-profiler count).",
        file_error::file_label(file), known.counted->n_tokens(), kLeastTokens));
  }
  return known;
}

/// Returns the sparsity modes that the user's option requests and the model has. "auto" requests exact and
/// predicted, or dense if the model has neither of these two modes; the engine does the same when it loads a
/// model. Throws std::runtime_error if the model cannot run in the requested mode.
std::vector<Sparsity> asked_modes(Options::Sparsity asked, const PlannedModel& model) {
  std::vector<Sparsity> modes;
  for (const Sparsity mode : model.modes()) {
    const bool sparse = mode == Sparsity::kExact || mode == Sparsity::kPredicted;
    if (asked == Options::Sparsity::kAuto ? sparse : sparsity_option(mode) == asked) modes.push_back(mode);
  }
  if (!modes.empty()) return modes;
  if (model.spec.has_experts() && asked != Options::Sparsity::kAuto) {
    throw std::runtime_error(model.name +
                             ": its FFNs are mixtures of experts, for which plan knows only one mode: a "
                             "token reads all of its own experts; leave --sparsity out.");
  }
  if (asked == Options::Sparsity::kAuto) return {Sparsity::kDense};
  const std::string name = engine_sparsity(asked);
  if (asked == Options::Sparsity::kCalibrated) {
    if (model.spec.has_zero_neurons()) {
      throw std::runtime_error(model.name +
                               " cannot run calibrated: its activation gives exact zeros, which exact skips "
                               "without loss; take --sparsity auto.");
    }
    std::fprintf(stderr, "calibrated is planned as dense: how much it skips depends on thresholds\n");
    return {Sparsity::kDense};
  }
  throw std::runtime_error(model.name + " cannot run " + name + ": it has no " +
                           (asked == Options::Sparsity::kPredicted ? "predictors" : "zeros to skip") +
                           "; take --sparsity auto.");
}

MachineProfile find_machine(const PlanOptions& options) {
  if (!options.machine.empty()) {
    try {
      return machine_named(options.machine);
    } catch (const std::runtime_error& error) {
      std::vector<std::string> names;
      for (const ShippedMachine& shipped : shipped_machines()) names.emplace_back(shipped.name);
      throw std::runtime_error(error.what() + suggestion(options.machine, names));
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

}  // namespace

KnownCounts find_counts(const PlanOptions& options, const PlannedModel& model) {
  if (!options.activity_file.empty()) return named_counts(options.activity_file, model);
  if (!model.file) return {};
  std::string said;
  KnownCounts known = known_counts(process_environment(), *model.file, model.spec, options.active, said);
  if (!said.empty()) std::fprintf(stderr, "%s\n", said.c_str());
  return known;
}

PlanQuestion plan_question(const PlanOptions& plan, const Options& options, const PlannedModel& model) {
  const int possible = model.spec.context_train;
  if (options.context > possible) {
    throw std::runtime_error(
        fmt::format("A context of {} tokens was asked for, but {} was trained on {}, which is the most "
                    "it can have.",
                    options.context, model.name, possible));
  }
  if (const std::string why = why_not_kv_type(model.spec, engine_kv_type(options.kv_type)); !why.empty())
    throw std::runtime_error(model.name + ": " + why);
  if (plan.active && model.spec.has_experts()) {
    throw std::runtime_error("--active says how many neurons are active, and the FFNs of " + model.name +
                             " are experts; leave it out.");
  }
  PlanQuestion question{
      .model = model,
      .machine = {},
      .vram_bytes = std::nullopt,
      .ram_bytes = std::nullopt,
      .load = {.context_tokens = options.context > 0
                                     ? options.context
                                     : std::min(kDefaultContext, model.spec.unindexed_context()),
               .n_slots = options.slots,
               .n_kv_contexts = engine_kv_contexts(options.kv_contexts),
               .prefill_chunk = options.prefill_chunk,
               .kv_type = engine_kv_type(options.kv_type),
               .library = options.prompt_products == Options::PromptProducts::kFast},
      .modes = {},
      .activity = std::nullopt,
      .active = plan.active,
      .assumptions = {}};
  // The user's budget is used even if the machine has less memory.
  if (options.vram_budget_gib)
    question.vram_bytes = static_cast<int64_t>(bytes_of_gib(*options.vram_budget_gib));
  if (options.ram_budget_gib)
    question.ram_bytes = static_cast<int64_t>(bytes_of_gib(*options.ram_budget_gib));
  if (plan.sparsity->count() > 0) question.modes = asked_modes(options.sparsity, model);
  return question;
}

void add_machine(const PlanOptions& options, PlanQuestion& question) {
  const std::string lost = set_machine(question, find_machine(options));
  if (!lost.empty() && question.vram_bytes)
    throw std::runtime_error("--vram-budget was given, but " + lost + ".");
  if (question.vram_bytes && !question.machine.gpu) {
    throw std::runtime_error("--vram-budget was given, but " + question.machine.name +
                             " has no GPU; name a machine with one (--machine " + shipped_machine_names() +
                             ").");
  }
}

void add_plan_options(CLI::App& command, PlanOptions& plan, Options& options) {
  command
      .add_option("--machine", plan.machine,
                  "Machine to plan for: " + shipped_machine_names() +
                      ", or a file of hearth-profiler probe --toml; not given: this one")
      ->type_name("NAME|FILE");
  add_options(command,
              {"vram-budget", "ram-budget", "prompt-products", "context", "slots", "kv-contexts",
               "prefill-chunk", "kv-type", "sparsity"},
              options);
  CLI::Option* sparsity = command.get_option("--sparsity")->default_str("");
  sparsity->description(sparsity->get_description() + " Not given: all modes of the model are compared.");
  plan.sparsity = sparsity;
  command
      .add_option("--activity", plan.activity_file,
                  "Counts of the model's neurons (from hearth-profiler count, or CSV); not given: kept "
                  "counts, counts beside the model, or published figures for its kind")
      ->type_name("FILE");
  command
      .add_option("--active", plan.active, "Share of neurons that are active, if no counts of tokens tell it")
      ->type_name("SHARE")
      ->check(number_from(0.001, 0.9));
}

void warn_if_busy(const MachineProfile& machine) {
  const std::string busy = busy_prediction(available_share(machine), machine.ram_read_bytes_per_s());
  if (!busy.empty()) fmt::print(stderr, "hearth-profiler: {}.\n", busy);
}

}  // namespace hearth
