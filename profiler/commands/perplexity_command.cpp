// Defines the perplexity subcommand: loads the model, scores the text and reports.
#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "config/command_options.h"
#include "profiler/activity/activity_csv.h"
#include "profiler/bench/bench.h"
#include "profiler/bench/perplexity.h"
#include "profiler/commands/commands.h"
#include "profiler/options/model_options.h"
#include "profiler/options/terminal.h"

namespace hearth {
namespace {

struct PerplexityCommand {
  ModelOptions model;
  std::string file;
  int n_context = 512;
  std::string activity_file;
};

/// Writes how often each neuron was active on the text, as a CSV file.
void write_hits(const PerplexityCommand& command, ModelRuntime& model, const NeuronActivity& activity) {
  ActivityTable table{.model = model.facts().file.path().filename().string(),
                      .text = command.file,
                      .n_tokens = static_cast<uint64_t>(activity.n_tokens),
                      .counts = {}};
  const std::vector<uint32_t> hits = model.observation().take_activity().active;
  const ptrdiff_t d_ff = model.facts().spec.d_ff;
  for (auto at = hits.begin(); at != hits.end(); at += d_ff) table.counts.emplace_back(at, at + d_ff);
  std::ofstream out(command.activity_file, std::ios::binary);
  if (!(out << activity_csv(table) << std::flush)) {
    throw std::runtime_error(command.activity_file +
                             ": the activity could not be written: " + std::strerror(errno) + ".");
  }
}

int run_perplexity(PerplexityCommand command) {
  // Steps longer than this are no faster, but take more memory.
  constexpr int kMaxChunk = 512;
  const int chunk = std::min(command.n_context, kMaxChunk);
  const auto model = load_model(command.model, command.n_context, chunk);
  const bool dense = model->placed().sparsity.mode == Sparsity::kDense;
  if (!command.activity_file.empty() && model->facts().spec.has_experts()) {
    throw std::runtime_error(
        "--activity: the model is a mixture, whose experts are counted, not neurons; take hearth-profiler "
        "count.");
  }
  if (!command.activity_file.empty() && dense) {
    throw std::runtime_error(
        "--activity: a dense run does not look at single neurons; take --sparsity exact or calibrated.");
  }
  int step = chunk;
  if (!command.activity_file.empty()) {
    model->observation().count_activity();
    // a GPU can count activity only in smaller steps
    step = std::min(chunk, model->observation().max_counted_tokens());
  }
  model->observation().reset_activity();
  const Tokenizer& tokenizer = model->facts().tokenizer;
  const std::vector<int32_t> tokens = tokenizer.encode(read_text(command.file, "--file"), true, false);
  // If the model expects a begin token, encode() has put one before the text. Every window then begins with
  // this token.
  const bool wants_bos = !tokens.empty() && tokens.front() == tokenizer.bos() && tokenizer.bos() >= 0;
  PerplexityResult result;
  {
    ProgressLine line("Scoring");
    result = measure_perplexity(
        *model, tokens, command.n_context, wants_bos ? tokenizer.bos() : -1,
        [&line](const PerplexityResult& so_far, int n_windows) {
          line.update(static_cast<double>(so_far.n_windows) / n_windows,
                      fmt::format("perplexity {:.4f}", so_far.perplexity));
        },
        step);
  }
  const NeuronActivity activity = model->observation().activity();
  if (!command.activity_file.empty()) write_hits(command, *model, activity);
  print_result(fmt::format(
      "perplexity {:.4f} +/- {:.4f}  ({} windows of {} tokens, {} tokens scored, {})\n"
      "sparsity   {}\n",
      result.perplexity, result.standard_error, result.n_windows, command.n_context, result.n_scored,
      model->placed().backend, sparsity_text(model->placed().sparsity, activity)));
  return 0;
}

}  // namespace

std::function<int()> add_perplexity_command(CLI::App& app) {
  const auto command = std::make_shared<PerplexityCommand>();
  CLI::App* perplexity = app.add_subcommand("perplexity", "Perplexity of a text, as llama.cpp defines it");
  add_model_options(*perplexity, command->model);
  add_device_options(*perplexity, command->model);
  add_options(*perplexity, {"kv-type"}, command->model);
  perplexity->add_option("--file,-f", command->file, "Text file")->required()->type_name("FILE");
  perplexity->add_option("--window,-c", command->n_context, "Tokens per window")
      ->capture_default_str()
      ->type_name("N")
      ->check(CLI::Range(4, 1 << 20));
  perplexity
      ->add_option("--activity", command->activity_file,
                   "Write how often each neuron was active on the text: CSV of layer, neuron, count")
      ->type_name("FILE");
  return [command] { return run_perplexity(*command); };
}

}  // namespace hearth
