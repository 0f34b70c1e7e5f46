// Options of the replay subcommand, and the order of its work: trace, model and machine, replay, report.
#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "config/command_options.h"
#include "engine/activity/activity_file.h"
#include "engine/activity/expert_trace.h"
#include "kernels/base/file_error.h"
#include "profiler/commands/commands.h"
#include "profiler/engine_options.h"
#include "profiler/machine/shipped_machines.h"
#include "profiler/options/command_line.h"
#include "profiler/options/named_model.h"
#include "profiler/options/terminal.h"
#include "profiler/plan/plan_machine.h"
#include "profiler/replay/optimum.h"
#include "profiler/replay/replay.h"
#include "profiler/replay/replay_report.h"

namespace hearth {
namespace {

constexpr std::array kPolicies = {ReplayPolicy::kNone,     ReplayPolicy::kStatic, ReplayPolicy::kLru,
                                  ReplayPolicy::kLfu,      ReplayPolicy::kDecay,  ReplayPolicy::kLearned,
                                  ReplayPolicy::kPrefetch, ReplayPolicy::kOptimum};
/// Without --train, the first quarter (1 / kTrainingShare) of the decoded tokens is not replayed. Instead,
/// the cache begins with the experts that these tokens use most.
constexpr uint64_t kTrainingShare = 4;

struct ReplayCommand {
  Options options;  // the model's path may be missing
  std::string trace, training, shape, type = "q4_0", policy = "all", budget, machine;
  double prefetch_accuracy = kPrefetchAccuracy;
  bool prompts = false, json = false;
};

std::vector<std::string> policy_words() {
  std::vector<std::string> words{"all"};
  for (const ReplayPolicy policy : kPolicies) words.emplace_back(policy_name(policy));
  return words;
}

/// Returns the trace's model: the file or the shape that the options name. If they name none, returns the
/// shape for which `synth --trace` generated the trace.
PlannedModel model_of_trace(const ReplayCommand& command, const ExpertTrace& trace) {
  const std::string label = file_error::file_label(command.trace);
  if (!command.options.model.empty()) {
    PlannedModel model = named_model(command.options.model, {}, command.shape, command.type, "replay");
    require_same_model(trace, identify(*model.file, model.spec), label);
    return model;
  }
  const std::string name = command.shape.empty() ? trace.model.name : command.shape;
  const ModelShape* known = find_shape(name);
  if (known == nullptr && command.shape.empty()) {
    throw std::runtime_error(label + ": it is a trace of " + file_error::quoted(trace.model.name) +
                             ", which is no shape; give --model its file, or --shape a shape like it.");
  }
  const std::optional<DType> type = dtype_of_name(command.type);
  if (known == nullptr || !type) return named_model({}, {}, name, command.type, "replay");  // throws
  ModelShape shape = *known;
  shape.n_layers = trace.model.n_layers;  // synth --layers
  PlannedModel model = model_of_shape(shape, *type, {});
  const bool same = shape.n_experts == trace.model.n_experts && shape.n_used == trace.n_used &&
                    shape.d_model == trace.model.d_model &&
                    traced_layers(model.spec, model.weights).size() == trace.layers.size();
  if (!same) {
    throw std::runtime_error(
        fmt::format("{}: it has {} of {} experts in {} layers, unlike the shape {}; give "
                    "--model the file of its model.",
                    label, trace.n_used, trace.model.n_experts, trace.layers.size(), shape.name));
  }
  return model;
}

/// Bytes of "25%", "8GiB" or "512MiB".
double budget_bytes(const std::string& text, const ExpertTrace& trace) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  if (error == std::errc() && number >= 0) {
    if (unit == "%" && number <= 100) return number / 100 * all_expert_bytes(trace);
    if (unit == "GiB") return number * (1 << 30);
    if (unit == "MiB") return number * (1 << 20);
  }
  throw std::runtime_error(
      "--budget is " + file_error::quoted(text) +
      ", expected a share of the experts' bytes like 25%, or bytes like 8GiB or 512MiB.");
}

struct Training {
  KnownUse known;
  std::string what;
  uint64_t first_token = 0;  // from which on the trace is replayed
};

Training train(const ReplayCommand& command, const ExpertTrace& decoded) {
  using file_error::with_commas;
  const uint64_t n = decoded.n_tokens();
  if (n < kTrainingShare) {
    throw std::runtime_error(file_error::file_label(command.trace) +
                             ": it has no generated tokens to replay; record more, or give --prompts.");
  }
  if (command.training.empty()) {
    const uint64_t first = n / kTrainingShare;
    return {use_in_trace(decoded, 0, first), "its first " + with_commas(first) + " tokens", first};
  }
  const std::string label = file_error::file_label(command.training);
  if (read_text(command.training, "--train").starts_with("HACT")) {
    const Activity activity = read_activity(command.training);
    require_same_model(activity, decoded.model, label);
    return {use_in_counts(decoded, activity.total()), label, 0};
  }
  const ExpertTrace other = read_expert_trace(command.training);
  require_same_model(other, decoded.model, label);
  return {use_in_trace(other, 0, other.n_tokens()), label, 0};
}

int run_replay(const ReplayCommand& command) {
  // 1. Read the trace, and find its model and the machine.
  const ExpertTrace trace = read_expert_trace(command.trace);
  const PlannedModel model = model_of_trace(command, trace);
  const int context = command.options.context > 0 ? command.options.context
                                                  : std::min(kDefaultContext, model.spec.unindexed_context());
  if (context > model.spec.context_train) {
    throw std::runtime_error(fmt::format("--context is {}, but {} was trained on {} tokens; choose fewer.",
                                         context, model.name, model.spec.context_train));
  }
  PlanQuestion question{
      .model = model,
      .machine = {},
      .vram_bytes = std::nullopt,
      .ram_bytes = std::nullopt,
      .load = {.context_tokens = context, .kv_type = engine_kv_type(command.options.kv_type)},
      .modes = {},
      .activity = std::nullopt,
      .active = std::nullopt,
      .assumptions = {}};
  const std::string lost = set_machine(question, machine_named(command.machine));
  if (!question.machine.gpu) {
    throw std::runtime_error(question.machine.name + " has no GPU to hold experts" +
                             (lost.empty() ? "" : ": " + lost) + "; name another machine (" +
                             shipped_machine_names() + ").");
  }

  // 2. Replay.
  const ExpertTrace decoded = decoded_part(trace, command.prompts);
  const Training training = train(command, decoded);
  const double budget = std::min(budget_bytes(command.budget, trace), all_expert_bytes(trace));
  const DecodeCosts costs = decode_costs(question, decoded);
  std::vector<PolicyResult> results;
  {
    ProgressLine line("Replaying");
    for (const ReplayPolicy policy : kPolicies) {
      if (command.policy != "all" && command.policy != policy_name(policy)) continue;
      results.push_back(replay(
          policy, decoded, training.first_token, training.known, budget, costs,
          [&](double fraction) { line.update(fraction, policy_name(policy)); }, command.prefetch_accuracy));
    }
  }

  // 3. Report.
  const ReplayedTrace replayed{.question = question,
                               .trace = decoded,
                               .trained_on = training.what,
                               .budget_bytes = budget,
                               .other_bytes = costs.other_bytes,
                               .exact_optimum = has_exact_optimum(trace),
                               .prefetch_accuracy = command.prefetch_accuracy};
  print_result(command.json ? replay_json(replayed, results) : replay_text(replayed, results));
  return 0;
}

}  // namespace

std::function<int()> add_replay_command(CLI::App& app) {
  const auto command = std::make_shared<ReplayCommand>();
  CLI::App* replay = app.add_subcommand(
      "replay", "Compare policies that choose which experts a GPU holds, on a trace of experts");
  replay
      ->add_option("--trace", command->trace,
                   "Trace of experts, from count --trace, synth --trace or hearthd --expert-trace")
      ->required()
      ->type_name("FILE");
  replay
      ->add_option(
          "--train", command->training,
          "Trace or activity file whose most used experts are on the GPU first; not given: the first "
          "quarter of the trace, which is then not replayed")
      ->type_name("FILE");
  replay->add_option("--policy", command->policy, "Policy to replay; all: compares all of them")
      ->capture_default_str()
      ->type_name("NAME")
      ->check(CLI::IsMember(policy_words()));
  replay
      ->add_option("--prefetch-accuracy", command->prefetch_accuracy,
                   "Share of a layer's experts that the policy prefetch predicts correctly")
      ->capture_default_str()
      ->type_name("SHARE")
      ->check(CLI::Range(0.0, 1.0));
  replay
      ->add_option("--budget", command->budget,
                   "GPU memory for experts: a share of their bytes like 25%, or bytes like 8GiB or 512MiB")
      ->required()
      ->type_name("SHARE|BYTES");
  replay
      ->add_option("--machine", command->machine,
                   "Machine to predict for: " + shipped_machine_names() +
                       ", or a file of hearth-profiler probe --toml")
      ->required()
      ->type_name("NAME|FILE");
  add_options(*replay, {"model"}, command->options);
  replay
      ->add_option("--shape", command->shape,
                   "A shape instead of the model's file; not given: the shape that the trace was planted for")
      ->type_name("NAME");
  replay->add_option("--type", command->type, "Type of a shape's weights except the experts")
      ->capture_default_str()
      ->type_name("NAME");
  add_options(*replay, {"context", "kv-type"}, command->options);
  replay->add_flag("--prompts", command->prompts,
                   "Replay the tokens of prompts too, as if they were generated");
  replay->add_flag("--json", command->json, "Print one JSON object");
  return [command] { return run_replay(*command); };
}

}  // namespace hearth
