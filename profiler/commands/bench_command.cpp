// Defines the bench subcommand: adds its options, loads the model, measures and reports.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <variant>

#include "config/command_options.h"
#include "config/environment.h"
#include "engine/model/assistant_weights.h"
#include "engine/tokenizer/same_vocabulary.h"
#include "kernels/base/trace.h"
#include "kernels/cuda/bench/speed.h"
#include "kernels/cuda/runtime/device.h"
#include "profiler/bench/bench.h"
#include "profiler/bench/constraint_bench.h"
#include "profiler/bench/speculation_bench.h"
#include "profiler/commands/commands.h"
#include "profiler/commands/kernels_command.h"
#include "profiler/commands/simulate_command.h"
#include "profiler/machine/known_machine.h"
#include "profiler/options/model_options.h"
#include "profiler/options/terminal.h"
#include "profiler/plan/expected_run.h"
#include "profiler/plan/plan_machine.h"

namespace hearth {
namespace {

struct BenchCommand {
  ModelOptions model;
  BenchOptions options;
  bool json = false;
  bool kernels = false;      // time single kernels instead of a model
  bool constraints = false;  // time constrained decoding instead of free decoding
  std::string schema_file;   // the file of an additional schema to measure, or empty
  bool speculation = false;  // measure the gain of drafts
  float temperature = 0;     // sampling temperature of the answers
  SimulateCommand simulation;
  bool generate_given = false;
};

/// Measures the cost of constrained decoding instead of prefill and decode.
int run_constraint_command(const BenchCommand& command) {
  std::vector<ConstraintCase> cases = built_in_cases();
  if (!command.schema_file.empty())
    cases.push_back(schema_case(std::filesystem::path(command.schema_file).filename().string(),
                                read_text(command.schema_file, "--schema")));
  const ConstraintBenchOptions options{.n_slots = command.model.slots,
                                       .n_generate = command.options.n_generate,
                                       .n_repeats = command.options.n_repeats};
  ModelOptions loading = command.model;
  loading.n_slots = slots_of(cases, options);
  const int context = context_of(options);
  const auto model = load_model(loading, context, std::max(loading.prefill_chunk, context));
  std::vector<ConstraintCost> costs;
  try {
    ProgressLine line("Measuring");
    costs = run_constraint_bench(*model, cases, options, [&line](double fraction) { line.update(fraction); });
    // only the schema of the user's file can fail; the built-in schemas can be enforced
  } catch (const ConstraintError& error) {
    const std::string where = error.where().empty() ? "" : " (at " + error.where() + ")";
    throw std::runtime_error(command.schema_file + ": the schema cannot be enforced" + where + ": " +
                             error.what());
  }
  print_result(command.json ? constraint_bench_json(*model, options, costs)
                            : constraint_bench_text(*model, options, costs));
  return 0;
}

/// Refuses a draft model whose vocabulary differs from the model's.
void check_vocabulary(const std::string& model, const std::string& draft_model) {
  const auto difference = vocabulary_difference(read_vocabulary(ModelFile::open(model)),
                                                read_vocabulary(ModelFile::open(draft_model)));
  if (difference)
    throw std::runtime_error("--draft-model " + draft_model +
                             ": its vocabulary differs from the model's: " + *difference);
}

/// Measures the gain of speculative decoding instead of prefill and decode.
int run_speculation_command(const BenchCommand& command) {
  SpeculationBenchOptions options{.n_generate = command.options.n_generate,
                                  .n_repeats = command.options.n_repeats,
                                  .temperature = command.temperature};
  const std::string& draft_file = command.model.draft_model;
  if (!draft_file.empty()) check_vocabulary(command.model.model, draft_file);
  const auto tokenizer = Tokenizer::from_model(ModelFile::open(command.model.model));
  const int context = context_of(*tokenizer, options), chunk = command.model.prefill_chunk;
  // The model is loaded twice, so that neither run benefits from what the other run leaves in memory.
  const auto plain = load_model(command.model, context, chunk);
  ModelOptions drafting = command.model;
  drafting.nextn = draft_file.empty() && command.model.speculate == Options::Speculate::kAuto;
  if (!draft_file.empty()) {
    auto file = std::make_shared<const ModelFile>(ModelFile::open(draft_file));
    if (is_assistant(*file)) drafting.assistant = std::move(file);
  }
  const auto with = load_model(drafting, context, chunk);
  std::unique_ptr<ModelRuntime> draft_model;
  options.speculation.on = true;
  options.speculation.max_draft = command.model.draft_tokens;
  if (!draft_file.empty() && !drafting.assistant) {
    ModelOptions loading = command.model;
    loading.model = draft_file;
    loading.device = Options::Device::kCpu;
    loading.kv_type = Options::KvType::kF16;  // hearthd loads draft models with this type
    draft_model = load_model(loading, context, chunk);
    options.speculation.draft_model = draft_model.get();
    options.speculation.draft_context = context;
  }
  std::vector<SpeculationGain> gains;
  {
    ProgressLine line("Measuring");
    gains =
        run_speculation_bench(*plain, *with, options, [&line](double fraction) { line.update(fraction); });
  }
  print_result(command.json ? speculation_bench_json(*plain, gains) : speculation_bench_text(*plain, gains));
  return 0;
}

/// Times single kernels instead of a model.
int run_kernels(const BenchCommand& command) {
  if (!command.model.model.empty()) {
    throw std::runtime_error(
        "bench --kernels times kernels of a shape (--shape NAME), not of a file: leave --model out.");
  }
  const SimulateCommand& simulation = command.simulation;
  KernelsCommand kernels{.machine = simulation.plan.machine,
                         .shapes = {},
                         .type = simulation.type_option->count() > 0 ? simulation.type : "",
                         .n_prompt = command.options.n_prompt,
                         .n_runs = command.options.n_repeats,
                         .json = command.json};
  if (!simulation.shape.empty()) kernels.shapes.push_back(simulation.shape);
  return run_kernels_command(kernels);
}

/// Predicts the run on this machine. Returns nullopt if the machine was never probed, or if the plan refuses
/// the model, which nevertheless runs.
std::optional<ExpectedRun> expected_here(const BenchCommand& command, const ModelRuntime& running) {
  const std::optional<MachineProfile> machine = kept_machine(process_environment());
  if (!machine) return std::nullopt;
  try {
    const PlannedModel model = model_of_file(command.model.model, command.model.ffn_activation);
    PlanQuestion question = plan_question(command.simulation.plan, command.model, model);
    question.load.context_tokens = command.options.n_prompt + command.options.n_generate;
    question.load.n_slots = 1;
    question.load.prefill_chunk = command.options.chunk;
    question.modes = {running.placed().sparsity.mode};
    set_machine(question, *machine);
    if (running.placed().plan == nullptr) question.machine.gpu.reset();
    if (!question.machine.gpu) question.vram_bytes.reset();
    std::string said;
    const KnownCounts known =
        known_counts(process_environment(), *model.file, model.spec, command.simulation.plan.active, said);
    question.activity = known.model;
    return expected_run(question,
                        {.n_prompt = command.options.n_prompt,
                         .n_generate = command.options.n_generate,
                         .chunk = command.options.chunk},
                        known.counted ? known.counted->total() : ActivityCounts());
  } catch (const std::runtime_error&) {
    return std::nullopt;
  }
}

int run_bench_command(BenchCommand command) {
  if (command.kernels) return run_kernels(command);
  if (!command.simulation.plan.machine.empty()) {
    return run_simulate_command(command.simulation, command.model, command.options, command.generate_given,
                                command.json);
  }
  if (command.model.model.empty())
    throw std::runtime_error("bench needs --model FILE, or --simulate NAME --shape NAME.");
  if (command.constraints) return run_constraint_command(command);
  if (command.speculation) return run_speculation_command(command);

  // 1. Open output files first, so that a file that cannot be written is reported before minutes of work.
  std::optional<TraceFile> timeline;
  if (!command.model.trace.empty()) command.model.timeline = &timeline.emplace(command.model.trace).trace();

  // 2. Load, measure, report.
  command.options.n_threads = thread_count(command.model);
  command.options.cpu_share = !command.model.no_cpu_share;
  if (command.model.device != Options::Device::kCpu && std::holds_alternative<cuda::Device>(cuda::probe())) {
    command.options.gpu = cuda::measure_bandwidth();  // before the model takes the memory
  }
  const int context = command.options.n_prompt + command.options.n_generate;
  const auto model = load_model(command.model, context, command.model.prefill_chunk);
  command.options.chunk = model->facts().prompt_step.tokens;
  BenchResult result;
  {
    ProgressLine line("Measuring");
    result = run_bench(*model, command.options, [&line](double fraction) { line.update(fraction); });
  }
  if (timeline) timeline->write();
  const std::optional<ExpectedRun> expected = expected_here(command, *model);
  print_result(command.json ? bench_json(*model, command.options, result, expected)
                            : cuda::describe(cuda::probe()) + "\n" +
                                  bench_text(*model, command.options, result, expected));
  return 0;
}

}  // namespace

std::function<int()> add_bench_command(CLI::App& app) {
  const auto command = std::make_shared<BenchCommand>();
  CLI::App* bench =
      app.add_subcommand("bench", "Measure prefill and decode speed, and compare it with what memory allows");
  add_model_options(*bench, command->model);
  add_device_options(*bench, command->model);
  bench->get_option("--model")->required(false);
  add_simulate_options(*bench, command->simulation, command->model);
  bench
      ->add_option("--prompt,-p", command->options.n_prompt,
                   "Prompt tokens; together with --generate at most the model's context")
      ->capture_default_str()
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20));
  bench->add_option("--generate,-n", command->options.n_generate, "Tokens to generate")
      ->capture_default_str()
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20));
  add_options(*bench, {"prefill-chunk", "kv-type"}, command->model);
  bench
      ->add_option("--repeat,-r", command->options.n_repeats,
                   "Measured runs, after a warm-up; the result is the median, with --kernels the fastest run")
      ->capture_default_str()
      ->type_name("N")
      ->check(CLI::Range(1, 1000));
  bench->add_flag(
      "--kernels", command->kernels,
      "Instead, time each GPU kernel separately, at the sizes of --shape and with weights of --type (all), "
      "and compare it with the work that it declares. --prompt: tokens of a long step");
  bench->add_flag("--activity", command->options.counts,
                  "Count single neurons in half of the decode steps, and show what that costs");
  CLI::Option* const schema =
      bench->add_option("--schema", command->schema_file,
                        "Instead, measure what constraints cost in decoding: built-in JSON schemas, a "
                        "regular expression, and the JSON schema in FILE");
  schema->expected(0, 1)->type_name("[FILE]");
  add_options(*bench, {"slots", "speculate", "draft-tokens", "draft-model"}, command->model);
  CLI::Option* const speculate = bench->get_option("--speculate");
  speculate->description(speculate->get_description() +
                         " With text or auto, bench instead measures the gain of drafts, on a text that is "
                         "copied and on a story.");
  bench->add_option("--temperature", command->temperature, "Temperature of the answers with --speculate")
      ->capture_default_str()
      ->type_name("T")
      ->check(CLI::Range(0.0, 2.0));
  bench->add_flag("--json", command->json, "Print one JSON object");
  add_options(*bench, {"trace"}, command->model);
  const CLI::Option* const generate = bench->get_option("--generate");
  return [command, schema, speculate, generate] {
    command->generate_given = generate->count() > 0;
    const bool asked = speculate->count() > 0 && command->model.speculate != Options::Speculate::kOff;
    command->constraints = schema->count() > 0;
    command->speculation = asked || !command->model.draft_model.empty();
    return run_bench_command(*command);
  };
}

}  // namespace hearth
