// Defines the plan subcommand: finds the model, the machine and the activity, solves for the placement, and
// reports.
#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>

#include "config/command_options.h"
#include "profiler/commands/commands.h"
#include "profiler/options/command_line.h"
#include "profiler/options/named_model.h"
#include "profiler/options/plan_options.h"
#include "profiler/options/terminal.h"
#include "profiler/plan/mixture_plan.h"

namespace hearth {
namespace {

struct PlanCommand {
  Options options;  // the model's path may be missing
  std::string shape, type = "q4_0";
  PlanOptions plan;
  bool json = false;
};

int run_plan(const PlanCommand& command) {
  const PlannedModel model =
      named_model(command.options.model, command.options.ffn_activation, command.shape, command.type, "plan");
  PlanQuestion question = plan_question(command.plan, command.options, model);
  add_machine(command.plan, question);
  const KnownCounts known = find_counts(command.plan, model);
  if (model.spec.has_experts()) {
    const ActivityCounts counts = known.counted ? known.counted->total() : ActivityCounts();
    const MixturePlan mixture = plan_mixture(question, &counts);
    print_result(command.json ? mixture_json(question, mixture) : mixture_text(question, mixture));
    if (command.plan.machine.empty()) warn_if_busy(question.machine);
    return 0;
  }
  question.activity = known.model;
  const PlanAnswer answer = answer_plan(question);
  print_result(command.json ? plan_json(question, answer) : plan_text(question, answer));
  if (command.plan.machine.empty()) warn_if_busy(question.machine);
  return 0;
}

}  // namespace

std::function<int()> add_plan_command(CLI::App& app) {
  const auto command = std::make_shared<PlanCommand>();
  CLI::App* plan = app.add_subcommand(
      "plan",
      "Predict which parts of a model would be where on a machine, its speed, and what would make it faster");
  add_options(*plan, {"model", "ffn-activation"}, command->options);
  plan->add_option("--shape", command->shape, "A shape instead of a model file: " + shape_names())
      ->type_name("NAME");
  plan->add_option("--type", command->type, "Type of a shape's weights: q4_0, q4_k, q8_0, f16, ...")
      ->capture_default_str()
      ->type_name("NAME");
  add_plan_options(*plan, command->plan, command->options);
  plan->add_flag("--json", command->json, "Print one JSON object");
  return [command] { return run_plan(*command); };
}

}  // namespace hearth
