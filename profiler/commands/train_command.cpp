// Defines the train-predictors subcommand: checks the options, loads the model, trains, writes the predictors
// and reports.
//
// Training takes hours, so finished work is saved in a work folder as it goes. Ctrl-C, a kill or a full disk
// costs at most a minute of work, and the same command continues where the last run ended.
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "engine/model/ffn_activation.h"
#include "engine/model/predictor_file.h"
#include "kernels/base/sha256.h"
#include "kernels/base/whole_file.h"
#include "profiler/bench/perplexity.h"
#include "profiler/commands/commands.h"
#include "profiler/engine_options.h"
#include "profiler/options/command_line.h"
#include "profiler/options/model_options.h"
#include "profiler/options/terminal.h"
#include "profiler/predictors/predictor_writer.h"
#include "profiler/predictors/train_predictors.h"
#include "profiler/predictors/training_report.h"
#include "profiler/predictors/training_text.h"

namespace hearth {
namespace {

namespace fs = std::filesystem;

struct TrainCommand {
  ModelOptions model;
  std::vector<std::string> texts, held_out;
  std::string out, work;
  bool side_file = false, force = false, restart = false, json = false;
  TextCut cut;
  TrainOptions options;
  double size_percent = 10, recall_percent = 95, false_percent = 10, rise_percent = 0.5;
  std::string type = "auto";
};

/// model.gguf becomes model.powerinfer.gguf; if the model is already a PowerInfer file, its name becomes
/// model.retrained.powerinfer.gguf.
fs::path default_out(const fs::path& model) {
  fs::path path = model;
  if (path.extension() == ".gguf") path.replace_extension();
  const bool is_one = path.extension() == ".powerinfer";
  if (is_one) path.replace_extension();
  path += is_one ? ".retrained.powerinfer.gguf" : ".powerinfer.gguf";
  return path;
}

[[noreturn]] void fail(const fs::path& path, const std::string& sentence) {
  throw std::runtime_error(path.string() + ": " + sentence + ".");
}

/// Checks everything about the target that would otherwise fail only after hours of work.
void check_target(const TrainCommand& command, const fs::path& target) {
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  std::error_code error;
  if (fs::is_directory(target, error)) fail(target, "is a folder, expected the name of a file to write");
  if (!command.side_file && !command.force && fs::exists(target, error)) {
    fail(target, "exists already; choose another name with --out, or replace it with --force");
  }
  if (!command.side_file && fs::equivalent(target, command.model.model, error)) {
    fail(target, "is the model itself; choose another name with --out");
  }
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    fail(target, "cannot be written: " + std::string(std::strerror(errno)) +
                     (command.side_file ? "; link the model into a folder that you may write"
                                        : "; choose another name with --out"));
  }
}

void check_model(const TrainCommand& command, const ModelSpec& spec) {
  if (spec.has_experts()) {
    fail(command.model.model, "has mixtures of experts, whose routers already decide what a token computes");
  }
  if (!spec.has_zero_neurons()) {
    fail(command.model.model,
         "has no neurons that predictors could leave out: its activation, " +
             ffn_activation_name(spec.activation) +
             ", gives no zeros; hearth-profiler calibrate finds what may be skipped of it");
  }
  const std::string why = why_no_powerinfer_file(spec);
  if (!command.side_file && !why.empty()) {
    fail(command.model.model, "cannot be written as PowerInfer's file: " + why +
                                  "; take --side-file, which keeps the predictors beside the model");
  }
}

/// Samples each file's text, up to the number of bytes that training can use.
std::vector<NamedText> read_texts(const std::vector<std::string>& paths, const TextCut& cut,
                                  const char* option) {
  constexpr int64_t kBytesOfToken = 16;  // more bytes per token than any text has on average
  const size_t max_bytes = static_cast<size_t>(kBytesOfToken * (cut.n_train + 2 * cut.n_tune));
  std::vector<NamedText> texts;
  for (const std::string& path : paths) texts.push_back(sample_text(path, max_bytes, option));
  return texts;
}

std::string hash_of(const std::vector<int32_t>& tokens) {
  return sha256_hex({reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(int32_t)});
}

/// Returns the text that identifies a run in its work folder. The text lists everything that can change the
/// results of training.
std::string identity_of(const TrainCommand& command, const ModelRuntime& model, const TrainingText& parts) {
  const TrainOptions& o = command.options;
  std::string text = fmt::format("model {} bytes {}\n", model.facts().file.path().filename().string(),
                                 model.facts().file.total_bytes());
  text += fmt::format("activation {}\n", ffn_activation_name(model.facts().spec.activation));
  text += "tokens " + hash_of(parts.train) + "\n";
  text += fmt::format("context {} epochs {} recall {} false {} size {} seed {}\n", o.n_context, o.epochs,
                      o.recall, o.false_positives, o.size_budget, o.seed);
  return text;
}

/// Measures the perplexity of the written file with the settings of a server, and the share of neurons that
/// its predictors propose. Returns false if interrupted.
bool measure_served(const TrainCommand& command, const fs::path& written, const TrainingText& text,
                    const SignalWatch& watch, TrainingReport& report) {
  ModelOptions options = command.model;
  if (!command.side_file) options.model = written.string();
  options.sparsity = Options::Sparsity::kPredicted;
  const int n_context = command.options.n_context;
  const auto model = load_model(options, n_context, std::min(n_context, 512));
  model->observation().reset_activity();
  ProgressLine line("Measuring the written file");
  const auto shown = [&](const PerplexityResult& so_far, int n_windows) {
    if (watch.stopped()) throw Interrupted{};
    line.update(static_cast<double>(so_far.n_windows) / n_windows);
  };
  try {
    report.served_perplexity =
        measure_perplexity(*model, text.held_out, n_context, text.bos, shown).perplexity;
  } catch (const Interrupted&) {
    return false;
  }
  report.served_proposed = model->observation().activity().proposed;
  return true;
}

void count_weights(const ModelFile& model, TrainingReport& report) {
  for (const MappedNet& net : report.result.nets) {
    report.predictor_weights += static_cast<int64_t>(net.net.in.size() + net.net.out.size());
  }
  double all = 0;
  for (const TensorInfo& tensor : model.tensors()) {
    const bool predictor = tensor.name.ends_with("fc1.weight") || tensor.name.ends_with("fc2.weight");
    if (!predictor) all += static_cast<double>(tensor.shape[0]) * static_cast<double>(tensor.shape[1]);
  }
  report.model_weights_share = static_cast<double>(report.predictor_weights) / all;
}

int interrupted(const SignalWatch& watch, const fs::path& work) {
  std::fprintf(stderr,
               "hearth-profiler: interrupted; the work so far is kept in %s, and the same command continues "
               "from there.\n",
               work.c_str());
  return watch.exit_code();
}

int run_train(TrainCommand command) {
  // 1. Check everything that does not need the model.
  TrainOptions& options = command.options;
  options.size_budget = command.size_percent / 100;
  options.recall = command.recall_percent / 100;
  options.false_positives = command.false_percent / 100;
  options.max_rise = command.rise_percent / 100;
  command.cut.n_context = options.n_context;
  const fs::path model_path = command.model.model;
  const fs::path target = command.side_file     ? predictor_file_path(model_path)
                          : command.out.empty() ? default_out(model_path)
                                                : fs::path(command.out);
  check_target(command, target);
  const fs::path work =
      command.work.empty() ? fs::path(target.string() + ".training") : fs::path(command.work);
  const std::vector<NamedText> texts = read_texts(command.texts, command.cut, "--text");
  const std::vector<NamedText> held_out = read_texts(command.held_out, command.cut, "--held-out");

  // 2. Load the model, and tokenize the texts.
  constexpr int kMaxChunk = 512;  // steps longer than this are no faster, but take more memory
  ModelOptions load = command.model;
  load.sparsity = Options::Sparsity::kDense;
  auto model = load_model(load, options.n_context, std::min(options.n_context, kMaxChunk));
  check_model(command, model->facts().spec);
  const TrainingText text = cut_texts(model->facts().tokenizer, texts, held_out, command.cut);

  // 3. Record, train, choose thresholds.
  WorkFolder folder(work, identity_of(command, *model, text), command.restart);
  options.n_threads = thread_count(command.model);
  options.isa = engine_isa(command.model.isa).value_or(supported_isas().front());
  const SignalWatch watch;
  try {
    TrainingReport report;
    {
      ProgressLine line("Training predictors");
      std::optional<TrainResult> result =
          train_predictors(*model, folder, text, options, [&](double share, std::string_view what) {
            line.update(share, what);
            return !watch.stopped();
          });
      if (!result) return interrupted(watch, work);
      report.result = std::move(*result);
    }

    // 4. Write the file, and measure its perplexity.
    const fs::path told = training_report_path(target);
    std::error_code error;
    fs::remove(told, error);  // an old report does not describe the new predictors
    const DType type = predictor_type(command.type, model->facts().file);
    if (command.side_file) {
      write_predictor_file(model->facts().file, model->facts().spec, report.result.source(), type);
    } else {
      ProgressLine line("Writing");
      write_powerinfer_file(target, model->facts().file, model->facts().spec, report.result.source(), type,
                            command.force, [&](double share) {
                              line.update(share);
                              if (watch.stopped()) throw Interrupted{};
                            });
    }
    folder.remove();
    count_weights(model->facts().file, report);
    report.result.predictors.clear();
    report.result.nets.clear();
    model.reset();
    if (!measure_served(command, target, text, watch, report)) {
      std::fprintf(stderr, "hearth-profiler: interrupted; %s is written, but not evaluated.\n",
                   target.c_str());
      return watch.exit_code();
    }
    report.model = model_path.string();
    report.written = target.string();
    report.written_bytes = static_cast<int64_t>(fs::file_size(target));
    report.max_rise = options.max_rise;
    print_result(command.json ? training_json(report) : training_text(report));
    write_whole_file(told, training_json(report));
  } catch (const Interrupted&) {
    return interrupted(watch, work);
  }
  return 0;
}

void add_target_options(CLI::App& train, TrainCommand& command) {
  CLI::Option* side =
      train.add_flag("--side-file", command.side_file, "Write only MODEL.predictors.gguf, beside the model");
  train
      .add_option("--out,-o", command.out,
                  "File to write: the whole model in PowerInfer's format (default: MODEL.powerinfer.gguf)")
      ->type_name("FILE")
      ->excludes(side);
  train.add_flag("--force", command.force, "Replace an existing file");
  train
      .add_option("--predictor-type", command.type,
                  "Type of the predictors: auto (the FFN's), f16, q8_0 or q4_0")
      ->capture_default_str()
      ->type_name("NAME")
      ->check(CLI::IsMember({"auto", "f16", "q8_0", "q4_0"}));
  train
      .add_option("--work", command.work,
                  "Folder for recordings and checkpoints during training (default: FILE.training)")
      ->type_name("DIR");
  train.add_flag("--restart", command.restart, "Start over, and discard the work of an interrupted run");
  train.add_flag("--json", command.json, "Print one JSON object");
}

void add_percent(CLI::App& train, const char* name, double& value, double low, double high,
                 const char* help) {
  train.add_option(name, value, help)
      ->capture_default_str()
      ->type_name("PERCENT")
      ->check(number_from(low, high));
}

void add_target_percents(CLI::App& train, TrainCommand& command) {
  add_percent(train, "--perplexity-rise", command.rise_percent, 0.01, 100,
              "How much perplexity may rise; as few neurons are proposed as this allows");
  add_percent(
      train, "--recall", command.recall_percent, 1, 100,
      "Share of the active neurons that a predictor must propose; a layer's rank grows until it does");
  add_percent(train, "--false-positives", command.false_percent, 0.1, 100,
              "Share of the inactive neurons that may be proposed to reach that recall");
  add_percent(train, "--size-budget", command.size_percent, 0.01, 100,
              "Size of all predictors together, as a share of the model's weights");
}

}  // namespace

std::function<int()> add_train_command(CLI::App& app) {
  const auto command = std::make_shared<TrainCommand>();
  CLI::App* train = app.add_subcommand(
      "train-predictors", "Train predictors for a ReLU model's active neurons, for --sparsity predicted");
  add_loading_options(*train, command->model);
  train->add_option("--text,-f", command->texts, "Text files to train on")->required()->type_name("FILE");
  train
      ->add_option("--held-out", command->held_out,
                   "Text files to measure on; not given: the last tenth of each text")
      ->type_name("FILE");
  add_target_options(*train, *command);
  add_target_percents(*train, *command);
  train->add_option("--tokens", command->cut.n_train, "Maximum number of tokens to train on")
      ->capture_default_str()
      ->type_name("N")
      ->check(CLI::Range(int64_t{256}, int64_t{1} << 32));
  train
      ->add_option("--measure-tokens", command->cut.n_tune,
                   "Maximum number of tokens for choosing thresholds, and for measuring")
      ->capture_default_str()
      ->type_name("N")
      ->check(CLI::Range(int64_t{16}, int64_t{1} << 32));
  train->add_option("--epochs", command->options.epochs, "Number of passes over the tokens")
      ->capture_default_str()
      ->type_name("N")
      ->check(number_from(0.01, 1000));
  train->add_option("--window,-c", command->options.n_context, "Tokens per window")
      ->capture_default_str()
      ->type_name("N")
      ->check(CLI::Range(4, 1 << 20));
  train->add_option("--seed", command->options.seed, "Seed of the training")
      ->capture_default_str()
      ->type_name("N")
      ->check(CLI::Range(int64_t{0}, std::numeric_limits<int64_t>::max()));
  return [command] { return run_train(*command); };
}

}  // namespace hearth
