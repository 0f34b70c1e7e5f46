// Options of the report subcommand, and the order of its work: what is known is read, what is not is counted,
// planned and measured, and all of it becomes one page.
#include "profiler/report_command.h"

#include <spdlog/fmt/chrono.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "config/environment.h"
#include "engine/gguf/fault.h"
#include "engine/whole_file.h"
#include "profiler/bench.h"
#include "profiler/count.h"
#include "profiler/model_options.h"
#include "profiler/plan_options.h"
#include "profiler/progress_line.h"
#include "profiler/prompt_set.h"
#include "profiler/report/report_facts.h"
#include "profiler/report/report_page.h"
#include "profiler/self_profile.h"
#include "profiler/text_io.h"

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

fs::path output_file(const ReportCommand& command) {
  fs::path out = command.out;
  if (out.empty()) out = fs::path(command.model.model).filename() += ".html";
  std::error_code error;
  const std::string label = gguf::file_label(out.string());
  if (fs::is_directory(out, error))
    throw std::runtime_error(label + ": it is a folder; give --out a file in it.");
  if (!fs::is_directory(folder_of(out), error)) {
    throw std::runtime_error(label + ": its folder is not there; make it, or give --out another place.");
  }
  return out;
}

/// Counts as hearthd does when it first meets a model. What cannot be counted is a note.
void count_now(const ReportCommand& command, const PlannedModel& model, std::vector<std::string>& notes) {
  const Environment environment = process_environment();
  SelfProfileSettings settings;
  settings.activity_file = kept_activity_path(environment, identify(*model.file, model.spec));
  if (settings.activity_file.empty()) {
    notes.push_back(
        "Activity was not counted: there is no cache folder to keep it in (hearth-profiler count --out).");
    return;
  }
  settings.load.path = command.model.model;
  settings.load.n_threads = thread_count(command.model);
  settings.load.isa = isa_from_name(command.model.isa);
  settings.load.ffn_activation = command.model.ffn_activation;
  ProgressLine line("Profiling");
  const std::optional<SelfProfile> found = self_profile(
      settings, environment,
      {.progress = [&line](std::string_view what, double fraction) { line.update(fraction, what); }});
  if (found) notes.insert(notes.end(), found->notes.begin(), found->notes.end());
}

HeldOut look_at_held_out(const ReportCommand& command, const PlannedModel& model, const KnownCounts& known) {
  const std::vector<fs::path> files(command.held_out.begin(), command.held_out.end());
  TextFeed texts(files.empty() ? held_out_prompts() : std::vector<std::string>(), files);
  ModelOptions load = command.model;
  load.sparsity = "dense";
  constexpr int kContext = 512;  // longer texts activate no other neurons
  const auto runtime = load_model(load, std::min(kContext, model.spec.context_train), 128);
  const std::set<Sha256> none;
  ProgressLine line("Looking at text that was not counted");
  return run_held_out(*runtime, texts,
                      {.predictors = model.weights,
                       .threshold = static_cast<float>(
                           command.model.predictor_threshold.value_or(double{model.spec.sparse_threshold})),
                       .counted = known.counted ? known.counted->texts : none,
                       .n_tokens = command.n_held_out,
                       .n_threads = thread_count(command.model),
                       .progress = [&line](double fraction) { line.update(fraction); }});
}

/// A short run of the model as planned, beside what the plan's own figures expect of just such a run.
SpeedMeasured measure_speed(const ReportCommand& command, const PlanQuestion& question,
                            const PlanAnswer& answer) {
  constexpr double kSeconds = 5;  // of each of the two, about
  const auto tokens = [](double seconds_each, int least, int most) {
    return std::clamp(static_cast<int>(kSeconds / seconds_each), least, most);
  };
  BenchOptions options;
  options.n_threads = thread_count(command.model);
  options.chunk = question.load.prefill_chunk;
  options.n_prompt = std::min(tokens(answer.best.prefill_seconds, 16, 512), question.load.context_tokens / 2);
  options.n_generate = std::min(tokens(answer.best.seconds(), 4, 128), question.load.context_tokens / 2);
  options.n_repeats = 3;

  PlanQuestion such = question;
  such.modes = {answer.best.mode};
  such.assumptions.context_filled =
      (options.n_prompt + options.n_generate / 2.0) / question.load.context_tokens;
  SpeedMeasured speed{.expected = answer_plan(such).best};

  ModelOptions load = command.model;
  load.sparsity = std::string(sparsity_name(answer.best.mode));
  load.device = answer.best.on_gpu ? "auto" : "cpu";
  load.placement = "solved";
  load.vram_budget_gib = command.plan.vram_gib;
  const auto model = load_model(load, question.load.context_tokens, question.load.prefill_chunk);
  ProgressLine line("Measuring speed");
  const BenchResult result = run_bench(*model, options, [&line](double fraction) { line.update(fraction); });
  speed.prefill = result.prefill_tokens_per_s;
  speed.decode = result.decode_tokens_per_s;
  return speed;
}

std::string made_text() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  return fmt::format("Made by hearth-profiler {} on {:%Y-%m-%d}.", HEARTH_VERSION, fmt::localtime(now));
}

int run_report(const ReportCommand& command) {
  // 1. The model, the machine, and what is known of the model's activity.
  const fs::path out = output_file(command);
  const PlannedModel model = model_of_file(command.model.model, command.model.ffn_activation);
  const bool here = command.plan.machine.empty();
  std::vector<std::string> notes;
  KnownCounts known = find_counts(command.plan, model);
  const std::string dense = why_not_counted(*model.file, model.spec, "exact");
  if (!dense.empty()) {
    notes.push_back(dense);
  } else if (!known.counted && command.plan.activity_file.empty()) {
    count_now(command, model, notes);
    known = find_counts(command.plan, model);
  }

  // 2. The plan.
  const PlanQuestion question = plan_question(command.plan, model, find_machine(command.plan), known.model);
  const PlanAnswer answer = answer_plan(question);

  // 3. What the model does on text that was not counted, and how fast it is.
  std::optional<HeldOut> held_out;
  if (dense.empty() && command.n_held_out > 0) held_out = look_at_held_out(command, model, known);
  if (held_out && held_out->n_tokens == 0) {
    notes.push_back(
        "All text held out was counted before, so it tells nothing; give --held-out another one.");
  }
  ReportInputs inputs{.question = question,
                      .answer = answer,
                      .counted = known.counted ? &*known.counted : nullptr,
                      .held_out = held_out ? &*held_out : nullptr,
                      .speed = {},
                      .notes = notes,
                      .made = made_text()};
  if (here && !command.no_speed) inputs.speed = measure_speed(command, question, answer);

  // 4. The page.
  const std::string page = report_page(report_data(inputs));
  write_whole_file(out, page);
  for (const std::string& note : notes) std::fprintf(stderr, "%s\n", note.c_str());
  print_result(fmt::format("written {}; a browser shows it\n", out.string()));
  return 0;
}

}  // namespace

std::function<int()> add_report_command(CLI::App& app) {
  const auto command = std::make_shared<ReportCommand>();
  CLI::App* report = app.add_subcommand(
      "report", "A page with pictures: activity, what lives where, predictors, expected and measured speed");
  add_loading_options(*report, command->model);
  report
      ->add_option("--out,-o", command->out,
                   "The HTML file to write (default: the model file's name and .html, here)")
      ->type_name("FILE");
  add_plan_options(*report, command->plan);
  report
      ->add_option("--held-out", command->held_out,
                   "Text files to judge hot neurons and predictors on; not given: prompts that are built in "
                   "and never counted. What was counted is passed over")
      ->type_name("FILE");
  report
      ->add_option("--held-out-tokens", command->n_held_out,
                   "Of these, at most; 0: hot neurons are not judged")
      ->capture_default_str()
      ->type_name("N")
      ->check(CLI::Range(uint64_t{0}, uint64_t{1} << 31));
  report->add_flag("--no-speed", command->no_speed, "Do not measure speed; with --machine it never is");
  return [command] { return run_report(*command); };
}

}  // namespace hearth
