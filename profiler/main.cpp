// hearth-profiler: measures a model on this machine. Subcommands: bench, calibrate, count, perplexity, plan,
// probe, report, synth, train-predictors.
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "engine/forward/trace_file.h"
#include "engine/model_runtime.h"
#include "kernels/cuda/runtime/bandwidth.h"
#include "kernels/cuda/runtime/device.h"
#include "profiler/bench/bench.h"
#include "profiler/bench/perplexity.h"
#include "profiler/bench/sparsity_text.h"
#include "profiler/commands/activity_csv.h"
#include "profiler/commands/calibrate_command.h"
#include "profiler/commands/count_command.h"
#include "profiler/commands/help_format.h"
#include "profiler/commands/model_options.h"
#include "profiler/commands/plan_command.h"
#include "profiler/commands/plan_options.h"
#include "profiler/commands/probe_command.h"
#include "profiler/commands/progress_line.h"
#include "profiler/commands/report_command.h"
#include "profiler/commands/synth_command.h"
#include "profiler/commands/text_io.h"
#include "profiler/commands/train_command.h"

namespace hearth {
namespace {

struct PerplexityCommand {
  ModelOptions model;
  std::string file;
  int n_context = 512;
  std::string activity_file;
};

/// How often each neuron was active on the text, as CSV.
void write_hits(const PerplexityCommand& command, ModelRuntime& model, const NeuronActivity& activity) {
  ActivityTable table{.model = model.file().path().filename().string(),
                      .text = command.file,
                      .n_tokens = static_cast<uint64_t>(activity.n_tokens),
                      .counts = {}};
  const std::vector<uint32_t> hits = model.take_activity().active;
  const ptrdiff_t d_ff = model.spec().d_ff;
  for (auto at = hits.begin(); at != hits.end(); at += d_ff) table.counts.emplace_back(at, at + d_ff);
  std::ofstream out(command.activity_file, std::ios::binary);
  if (!(out << activity_csv(table) << std::flush)) {
    throw std::runtime_error(command.activity_file +
                             ": the activity could not be written: " + std::strerror(errno) + ".");
  }
}

int run_perplexity(PerplexityCommand command) {
  // On a GPU steps must be small enough for what they find; the CPU counts any.
  if (!command.activity_file.empty() && command.model.device == "auto") command.model.device = "cpu";
  // Longer steps are no faster and take more memory.
  constexpr int kMaxChunk = 512;
  const int chunk = std::min(command.n_context, kMaxChunk);
  const auto model = load_model(command.model, command.n_context, chunk);
  const bool dense = model->sparsity().mode == Sparsity::kDense;
  if (!command.activity_file.empty() && dense) {
    throw std::runtime_error(
        "--activity: a dense run looks at no neuron; take --sparsity exact or calibrated.");
  }
  if (!command.activity_file.empty() && model->max_counted_tokens() < chunk) {
    throw std::runtime_error(
        "--activity: steps of " + std::to_string(chunk) +
        " tokens of this model are too large to be counted on a GPU; take --device cpu.");
  }
  if (!command.activity_file.empty()) model->count_activity();
  model->reset_activity();
  const Tokenizer& tokenizer = model->tokenizer();
  const std::vector<int32_t> tokens = tokenizer.encode(read_text(command.file, "--file"), true, false);
  // The tokenizer puts a begin token first where the model wants one: then every window gets it.
  const bool wants_bos = !tokens.empty() && tokens.front() == tokenizer.bos() && tokenizer.bos() >= 0;
  PerplexityResult result;
  {
    ProgressLine line("Scoring");
    result = measure_perplexity(*model, tokens, command.n_context, wants_bos ? tokenizer.bos() : -1,
                                [&line](const PerplexityResult& so_far, int n_windows) {
                                  line.update(static_cast<double>(so_far.n_windows) / n_windows,
                                              fmt::format("perplexity {:.4f}", so_far.perplexity));
                                });
  }
  const NeuronActivity activity = model->activity();
  if (!command.activity_file.empty()) write_hits(command, *model, activity);
  print_result(
      fmt::format("perplexity {:.4f} +/- {:.4f}  ({} windows of {} tokens, {} tokens scored, {})\n"
                  "sparsity   {}\n",
                  result.perplexity, result.standard_error, result.n_windows, command.n_context,
                  result.n_scored, model->backend_description(), sparsity_text(model->sparsity(), activity)));
  return 0;
}

struct BenchCommand {
  ModelOptions model;
  BenchOptions options;
  bool json = false;
  std::string trace;  // a file; empty: none
};

int run_bench_command(BenchCommand command) {
  // 1. Files first: what cannot be written is found before minutes of work.
  std::optional<TraceFile> timeline;
  if (!command.trace.empty()) command.model.trace = &timeline.emplace(command.trace).trace();

  // 2. Load, measure, tell.
  command.options.n_threads = thread_count(command.model);
  command.options.cpu_share = !command.model.no_cpu_share;
  if (command.model.device != "cpu" && std::holds_alternative<cuda::Device>(cuda::probe())) {
    command.options.gpu = cuda::measure_bandwidth();  // before the model takes the memory
  }
  const int context = command.options.n_prompt + command.options.n_generate;
  const auto model = load_model(command.model, context, command.options.chunk);
  BenchResult result;
  {
    ProgressLine line("Measuring");
    result = run_bench(*model, command.options, [&line](double fraction) { line.update(fraction); });
  }
  if (timeline) timeline->write();
  print_result(command.json
                   ? bench_json(*model, command.options, result)
                   : cuda::describe(cuda::probe()) + "\n" + bench_text(*model, command.options, result));
  return 0;
}

std::string no_subcommand(const CLI::App& app, const std::string& name) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return fmt::format("there is no subcommand \"{}\", expected one of {}.{}", name, fmt::join(names, ", "),
                     suggestion(name, names));
}

int main_of(int argc, char** argv) {
  CLI::App app("Measures a model on this machine.", "hearth-profiler");
  app.require_subcommand(1);
  app.formatter(std::make_shared<HelpFormat>());  // the subcommands' too

  BenchCommand bench;
  CLI::App* bench_app = app.add_subcommand("bench", "Prefill and decode speed, beside what memory allows");
  add_model_options(*bench_app, bench.model);
  add_device_options(*bench_app, bench.model);
  bench_app
      ->add_option("--prompt,-p", bench.options.n_prompt,
                   "Tokens of prompt; with --generate at most the model's context")
      ->capture_default_str()
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20));
  bench_app->add_option("--generate,-n", bench.options.n_generate, "Tokens to generate")
      ->capture_default_str()
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20));
  bench_app->add_option("--chunk", bench.options.chunk, "Prompt tokens per step")
      ->capture_default_str()
      ->type_name("N")
      ->check(CLI::Range(1, 8192));
  bench_app->add_option("--repeat,-r", bench.options.n_repeats, "Runs; the median is shown")
      ->capture_default_str()
      ->type_name("N")
      ->check(CLI::Range(1, 1000));
  bench_app->add_flag("--activity", bench.options.counts,
                      "Count single neurons in half of the decode steps, and tell what that costs");
  bench_app->add_flag("--json", bench.json, "Print one JSON object");
  bench_app
      ->add_option("--trace", bench.trace,
                   "Write a timeline of all steps, for Perfetto or chrome://tracing; slows them a little")
      ->type_name("FILE");

  PerplexityCommand perplexity;
  CLI::App* perplexity_app =
      app.add_subcommand("perplexity", "Perplexity of a text, as llama.cpp defines it");
  add_model_options(*perplexity_app, perplexity.model);
  add_device_options(*perplexity_app, perplexity.model);
  perplexity_app->add_option("--file,-f", perplexity.file, "Text file")->required()->type_name("FILE");
  perplexity_app->add_option("--context,-c", perplexity.n_context, "Tokens per window")
      ->capture_default_str()
      ->type_name("N")
      ->check(CLI::Range(4, 1 << 20));
  perplexity_app
      ->add_option("--activity", perplexity.activity_file,
                   "Write how often each neuron was active on the text: CSV of layer, neuron, count")
      ->type_name("FILE");

  const std::function<int()> calibrate = add_calibrate_command(app);
  const std::function<int()> plan = add_plan_command(app);
  const std::function<int()> probe = add_probe_command(app);
  const std::function<int()> report = add_report_command(app);
  const std::function<int()> count = add_count_command(app);
  const std::function<int()> synth = add_synth_command(app);
  const std::function<int()> train = add_train_command(app);

  try {
    app.parse(argc, argv);
  } catch (const CLI::RequiredError& error) {
    // What is missing may only be misspelt, and then that is what to tell.
    const std::vector<std::string> unknown = app.remaining(true);
    if (unknown.empty()) {
      app.exit(error);
    } else if (app.get_subcommands().empty() && !unknown.front().starts_with('-')) {
      throw std::runtime_error(no_subcommand(app, unknown.front()));
    } else {
      app.exit(CLI::ExtrasError(app.get_name(), unknown));
    }
    return 2;
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : 2;
  }
  if (app.got_subcommand("calibrate")) return calibrate();
  if (app.got_subcommand("plan")) return plan();
  if (app.got_subcommand("probe")) return probe();
  if (app.got_subcommand("report")) return report();
  if (app.got_subcommand("count")) return count();
  if (app.got_subcommand("synth")) return synth();
  if (app.got_subcommand("train-predictors")) return train();
  return *bench_app ? run_bench_command(bench) : run_perplexity(perplexity);
}

/// Ctrl-C and kill: results are printed whole at the end, so there is nothing to save, only the progress line
/// to take away. Calls only what a signal handler may.
void end_at_signal(int signal) {
  constexpr std::string_view kSentence = "\r\033[Khearth-profiler: interrupted.\n";
  // The escape sequence is for terminals only.
  const std::string_view text = isatty(STDERR_FILENO) != 0 ? kSentence : kSentence.substr(4);
  [[maybe_unused]] const ssize_t n = write(STDERR_FILENO, text.data(), text.size());
  _exit(128 + signal);  // as shells report a program that a signal ended
}

}  // namespace
}  // namespace hearth

int main(int argc, char** argv) {
  std::signal(SIGINT, hearth::end_at_signal);
  std::signal(SIGTERM, hearth::end_at_signal);
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may grow no more is an error of write()
  try {
    return hearth::main_of(argc, argv);
  } catch (const std::bad_alloc&) {
    std::cerr << "hearth-profiler: the system grants no more memory; measure with fewer tokens.\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "hearth-profiler: " << error.what() << "\n";
    return 2;
  }
}
