// Defines the report subcommand: reads earlier results, measures what is missing, and writes an HTML page of
// all results.
#include <spdlog/fmt/chrono.h>
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "config/environment.h"
#include "config/version.h"
#include "kernels/base/file_error.h"
#include "kernels/base/whole_file.h"
#include "profiler/activity/count.h"
#include "profiler/activity/text_feed.h"
#include "profiler/bench/bench.h"
#include "profiler/commands/commands.h"
#include "profiler/engine_options.h"
#include "profiler/machine/busy_machine.h"
#include "profiler/options/model_options.h"
#include "profiler/options/plan_options.h"
#include "profiler/options/terminal.h"
#include "profiler/report/report_data.h"
#include "profiler/report/report_page.h"
#include "profiler/self_profile.h"

namespace hearth {
namespace {

namespace fs = std::filesystem;

struct ReportCommand {
  ModelOptions model;
  PlanOptions plan;
  std::vector<std::string> held_out;
  uint64_t n_held_out = 2000;
  bool no_speed = false;
  std::string out;
};

/// Returns the path of the HTML page, and checks that path before any work, because a run takes a minute or
/// more.
fs::path output_file(const ReportCommand& command) {
  fs::path out = command.out;
  if (out.empty()) out = fs::path(command.model.model).filename() += ".html";
  std::error_code error;
  const std::string label = file_error::file_label(out.string());
  if (fs::is_directory(out, error)) {
    throw std::runtime_error(label + ": it is a folder; give --out a file in it.");
  }
  if (!fs::is_directory(folder_of(out), error)) {
    throw std::runtime_error(label + ": its folder does not exist; make it, or give --out another place.");
  }
  if (access(folder_of(out).c_str(), W_OK) != 0) {
    throw std::runtime_error(label + ": its folder is not writable; give --out another place.");
  }
  return out;
}

TextFeed held_out_texts(const ReportCommand& command) {
  const std::vector<fs::path> files(command.held_out.begin(), command.held_out.end());
  return TextFeed(files.empty() ? held_out_prompts() : std::vector<std::string>(), files);
}

/// hearthd counts a model's activity when it first starts with the model. If the known counts have fewer
/// tokens than hearthd would count, this function counts in the same way. Adds a note if something cannot be
/// counted or kept. Returns 0, or the exit code if a signal ended the run; counts up to the signal are kept.
int count_now(const ReportCommand& command, const PlannedModel& model, KnownCounts& known,
              std::vector<std::string>& notes) {
  SelfProfileSettings settings;
  if (known.counted && known.counted->n_tokens() >= settings.n_tokens) return 0;
  settings.load.path = command.model.model;
  settings.load.n_threads = thread_count(command.model);
  settings.load.isa = engine_isa(command.model.isa);
  settings.load.ffn_activation = command.model.ffn_activation;
  settings.experts = true;
  settings.activity_file = kept_activity_path(process_environment(), identify(*model.file, model.spec));

  SelfProfile found;
  {
    const SignalWatch watch;
    std::stop_source stop;
    ProgressLine line("Profiling");
    const SelfProfileHooks hooks{.progress =
                                     [&](std::string_view what, double fraction) {
                                       line.update(fraction, what);
                                       if (watch.stopped()) stop.request_stop();
                                     },
                                 .stop = stop.get_token()};
    try {
      count_neurons(settings, hooks, found);
    } catch (const std::runtime_error& error) {
      notes.push_back(std::string(error.what()) + " The counts are on this page and kept nowhere else.");
      settings.activity_file.clear();
      count_neurons(settings, hooks, found);
    }
    if (watch.stopped()) return watch.exit_code();
  }
  notes.insert(notes.end(), found.notes.begin(), found.notes.end());
  if (found.n_counted == 0) return 0;
  known.counted = std::move(found.activity);
  known.model = model_activity(*known.counted);
  return 0;
}

HeldOut look_at_held_out(const ReportCommand& command, const PlannedModel& model, TextFeed& texts,
                         const KnownCounts& known) {
  ModelOptions load = command.model;
  load.sparsity = Options::Sparsity::kDense;
  load.vram_budget_gib.reset();  // the budgets are for the plan; this run on the CPU ignores them
  load.ram_budget_gib.reset();
  constexpr int kContext = 512;  // longer texts do not activate other neurons
  const auto runtime = load_model(load, std::min(kContext, model.spec.context_train), 128);
  const std::set<Sha256> none;
  ProgressLine line("Looking at text that was not counted");
  return run_held_out(*runtime, texts,
                      {.predictors = model.weights,
                       .threshold = model.spec.sparse_threshold,
                       .counted = known.counted ? known.counted->texts : none,
                       .n_tokens = command.n_held_out,
                       .n_threads = thread_count(command.model),
                       .progress = [&line](double fraction) { line.update(fraction); }});
}

/// Chooses the numbers of prompt and generated tokens for a short run. prefill_s and decode_s: the seconds
/// that a prompt token and a generated token take according to the plan.
BenchOptions short_run(const ReportCommand& command, const PlanQuestion& question, double prefill_s,
                       double decode_s) {
  constexpr double kSeconds = 5;  // roughly, for each of the two runs
  const int half = question.load.context_tokens / 2;
  const auto tokens = [half](double seconds_each, int least, int most) {
    return std::min(std::clamp(static_cast<int>(kSeconds / seconds_each), least, most), half);
  };
  BenchOptions options;
  options.n_threads = thread_count(command.model);
  options.chunk = question.load.prefill_chunk;
  options.n_prompt = tokens(prefill_s, 16, 512);
  options.n_generate = tokens(decode_s, 4, 128);
  return options;
}

RunLoad load_of(const BenchOptions& options) {
  return {.n_prompt = options.n_prompt, .n_generate = options.n_generate, .chunk = options.chunk};
}

void run_and_measure(ModelRuntime& model, const BenchOptions& options, SpeedMeasured& speed) {
  ProgressLine line("Measuring speed");
  const BenchResult result = run_bench(model, options, [&line](double fraction) { line.update(fraction); });
  speed.prefill = result.prefill_tokens_per_s;
  speed.decode = result.decode_tokens_per_s;
  speed.busy =
      busy_measurement(result.bandwidth.ram / result.quiet_ram_bytes_per_s, result.quiet_ram_bytes_per_s);
}

/// Measures the speed of a mixture on the CPU.
SpeedMeasured measure_mixture(const ReportCommand& command, const PlanQuestion& question,
                              const MixturePlan& plan, const ActivityCounts& counts) {
  const BenchOptions options = short_run(command, question, plan.prefill.seconds(), plan.decode.seconds());
  SpeedMeasured speed{.n_prompt = options.n_prompt,
                      .n_generated = options.n_generate,
                      .expected = expected_run(question, load_of(options), counts)};
  ModelOptions load = command.model;
  load.ram_budget_gib.reset();  // the plan already keeps the budget
  load.n_slots = question.load.n_slots;
  load.n_kv_contexts = question.load.n_kv_contexts;  // one sequence is measured
  const auto model = load_model(load, question.load.context_tokens, question.load.prefill_chunk);
  run_and_measure(*model, options, speed);
  return speed;
}

/// Measures the speed of a short run with the planned placement. Also computes the speed that the planner
/// predicts for this run. REQUIRES: a context of at least two tokens.
SpeedMeasured measure_speed(const ReportCommand& command, const PlanQuestion& question,
                            const PlanAnswer& answer) {
  const BenchOptions options =
      short_run(command, question, answer.best.prefill_seconds, answer.best.seconds());
  PlanQuestion such = question;
  such.modes = {answer.best.mode};
  SpeedMeasured speed{.n_prompt = options.n_prompt,
                      .n_generated = options.n_generate,
                      .expected = expected_run(such, load_of(options), {})};

  ModelOptions load = command.model;
  load.sparsity = sparsity_option(answer.best.mode);
  load.device = answer.best.on_gpu ? Options::Device::kAuto : Options::Device::kCpu;
  load.ram_budget_gib.reset();  // the placement already keeps the budget
  load.n_slots = question.load.n_slots;
  load.n_kv_contexts = question.load.n_kv_contexts;  // one sequence is measured
  if (answer.best.on_gpu) {
    load.placed = PlacementFacts{.machine = question.machine,
                                 .activity = answer.activity,
                                 .ram_bytes = answer.ram_budget,
                                 .assumptions = question.assumptions,
                                 .found = {}};
  }
  const auto model = load_model(load, question.load.context_tokens, question.load.prefill_chunk);
  run_and_measure(*model, options, speed);
  return speed;
}

std::string made_text() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  return fmt::format("Made by hearth-profiler {} on {:%Y-%m-%d}.", hearth_version(), fmt::localtime(now));
}

void write_page(const fs::path& out, const ReportData& data, const std::vector<std::string>& notes) {
  write_whole_file(out, report_page(data));
  for (const std::string& note : notes) std::fprintf(stderr, "%s\n", note.c_str());
  print_result(fmt::format("written {}; a browser shows it\n", file_error::file_label(out.string())));
}

int interrupted(int code) {
  std::fprintf(stderr, "hearth-profiler: interrupted; what was counted is kept, no page was written.\n");
  return code;
}

/// Writes the HTML page for a mixture, which counts experts instead of neurons and compares no placements.
int run_mixture_report(const ReportCommand& command, const fs::path& out, const PlanQuestion& question,
                       KnownCounts& known) {
  std::vector<std::string> notes;
  if (command.plan.activity_file.empty()) {
    if (const int code = count_now(command, question.model, known, notes); code != 0)
      return interrupted(code);
  }
  const ActivityCounts counts = known.counted ? known.counted->total() : ActivityCounts();
  const MixturePlan plan = plan_mixture(question, &counts);
  MixtureReportInputs inputs{.question = question,
                             .plan = plan,
                             .counted = known.counted ? &*known.counted : nullptr,
                             .speed = {},
                             .notes = {},
                             .made = made_text()};
  if (command.plan.machine.empty() && !command.no_speed && !plan.on_gpu &&
      question.load.context_tokens >= 2) {
    inputs.speed = measure_mixture(command, question, plan, counts);
  }
  inputs.notes = notes;
  write_page(out, report_data(inputs), notes);
  return 0;
}

int run_report(const ReportCommand& command) {
  // 1. Check the options before any work.
  const fs::path out = output_file(command);
  const PlannedModel model = model_of_file(command.model.model, command.model.ffn_activation);
  PlanQuestion question = plan_question(command.plan, command.model, model);
  TextFeed texts = held_out_texts(command);
  KnownCounts known = find_counts(command.plan, model);
  add_machine(command.plan, question);

  if (model.spec.has_experts()) return run_mixture_report(command, out, question, known);

  // 2. Count activity that was not counted before, and plan.
  std::vector<std::string> notes;
  const bool zeros = model.spec.has_zero_neurons();
  if (!zeros) notes.push_back(why_not_counted(*model.file, model.spec, "exact"));
  if (zeros && command.plan.activity_file.empty()) {
    if (const int code = count_now(command, model, known, notes); code != 0) return interrupted(code);
  }
  question.activity = known.model;
  const PlanAnswer answer = answer_plan(question);

  // 3. Measure the model's activity on text that was not counted, and its speed.
  std::optional<HeldOut> held_out;
  if (command.n_held_out > 0 && zeros && (known.counted || model.weights.has_predictors())) {
    held_out = look_at_held_out(command, model, texts, known);
    if (held_out->n_tokens == 0) {
      notes.push_back(
          "All held-out texts were counted before, so they cannot serve as a test; give other texts with "
          "--held-out.");
    }
  }
  ReportInputs inputs{.question = question,
                      .answer = answer,
                      .counted = known.counted ? &*known.counted : nullptr,
                      .held_out = held_out ? &*held_out : nullptr,
                      .speed = {},
                      .notes = {},
                      .made = made_text()};
  if (command.plan.machine.empty() && !command.no_speed) {
    if (question.load.context_tokens >= 2) {
      inputs.speed = measure_speed(command, question, answer);
    } else {
      notes.push_back("Speed is not measured in a context of one token.");
    }
  }

  // 4. Write the page.
  inputs.notes = notes;
  write_page(out, report_data(inputs), notes);
  return 0;
}

}  // namespace

std::function<int()> add_report_command(CLI::App& app) {
  const auto command = std::make_shared<ReportCommand>();
  CLI::App* report = app.add_subcommand(
      "report", "Write a page with charts: activity, placement, predictors, expected and measured speed");
  add_loading_options(*report, command->model);
  report
      ->add_option("--out,-o", command->out,
                   "HTML file to write (default: the model file's name with .html, in the current folder)")
      ->type_name("FILE");
  add_plan_options(*report, command->plan, command->model);
  report
      ->add_option("--held-out", command->held_out,
                   "Text files on which hot neurons and predictors are judged; not given: built-in prompts "
                   "that are never counted. Texts that were counted are skipped")
      ->type_name("FILE");
  report
      ->add_option("--held-out-tokens", command->n_held_out,
                   "Maximum number of tokens of these texts; 0: hot neurons are not judged")
      ->capture_default_str()
      ->type_name("N")
      ->check(CLI::Range(uint64_t{0}, uint64_t{1} << 31));
  report->add_flag("--no-speed", command->no_speed,
                   "Do not measure speed. With --machine it is never measured");
  return [command] { return run_report(*command); };
}

}  // namespace hearth
