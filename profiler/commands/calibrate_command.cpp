// Defines the calibrate subcommand: checks the options, finds thresholds, writes the side file and reports.
//
// The side file is written last, in one piece, so an interrupted run leaves an older side file unchanged.
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "engine/model/calibration.h"
#include "kernels/base/file_error.h"
#include "kernels/base/sha256.h"
#include "profiler/activity/sequence_run.h"
#include "profiler/calibration/calibrate.h"
#include "profiler/commands/commands.h"
#include "profiler/options/command_line.h"
#include "profiler/options/model_options.h"
#include "profiler/options/terminal.h"

namespace hearth {
namespace {

namespace fs = std::filesystem;

struct CalibrateCommand {
  ModelOptions model;
  std::string text, held_out;
  double budget_percent = 1;
  int n_context = 512;
};

/// Checks that the side file can be written, before minutes of work.
void check_writable(const fs::path& side_file) {
  const fs::path folder = side_file.has_parent_path() ? side_file.parent_path() : fs::path(".");
  std::error_code error;
  if (fs::is_directory(side_file, error)) {
    throw std::runtime_error(side_file.string() +
                             ": is a folder, where the thresholds would be kept; move it away.");
  }
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    throw std::runtime_error(side_file.string() +
                             ": the thresholds cannot be kept there, beside the model: " +
                             std::strerror(errno) + "; link the model into a folder that you may write.");
  }
}

struct Tokens {
  std::vector<int32_t> text, held_out;
  int32_t bos = -1;
};

/// Tokenizes both texts. If there is no held-out text, the last quarter of the text's windows is held out.
Tokens tokenize(const CalibrateCommand& command, const Tokenizer& tokenizer, const std::string& text,
                const std::string& held_out) {
  Tokens tokens;
  tokens.text = tokenizer.encode(text, true, false);
  // If the model expects a begin token, encode() has put one before the text. Every window then begins with
  // this token.
  const bool wants_bos =
      !tokens.text.empty() && tokens.text.front() == tokenizer.bos() && tokenizer.bos() >= 0;
  if (wants_bos) tokens.bos = tokenizer.bos();
  const size_t window = static_cast<size_t>(command.n_context);
  const size_t n_tokens = tokens.text.size();
  size_t n_windows = n_tokens / window;
  if (command.held_out.empty()) {
    const size_t n_held_out = std::max<size_t>(1, n_windows / 4);
    n_windows -= std::min(n_windows, n_held_out);
    const auto end = tokens.text.begin() + static_cast<ptrdiff_t>(n_windows * window);
    tokens.held_out.assign(end, tokens.text.end());
    tokens.text.erase(end, tokens.text.end());
  } else {
    tokens.held_out = tokenizer.encode(held_out, true, false);
  }
  if (n_windows < kMinCalibrationWindows) {
    throw std::runtime_error(
        fmt::format("{}: the text has {} tokens, but thresholds take at least {} windows of {} tokens{}; "
                    "give a longer text "
                    "or a smaller --window.",
                    command.text, n_tokens, kMinCalibrationWindows, command.n_context,
                    command.held_out.empty() ? " in addition to the last quarter, which is held out" : ""));
  }
  if (tokens.held_out.size() < window) {
    throw std::runtime_error(
        fmt::format("{}: the held-out text has {} tokens, fewer than one window of {}; give a longer one or "
                    "a smaller --window.",
                    command.held_out, tokens.held_out.size(), command.n_context));
  }
  return tokens;
}

/// Returns the tokens per second of greedy decoding after the prompt.
double decode_speed(ModelRuntime& model, std::span<const int32_t> prompt) {
  constexpr int kSteps = 32;
  SequenceRun run(model);
  std::span<const float> logits = run.feed(prompt, model.limits().max_tokens);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kSteps; ++i) {
    const auto token = static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
    logits = run.feed(std::span(&token, 1), 1);
  }
  return kSteps / std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

struct DecodeSpeeds {
  double dense = 0, calibrated = 0;
};

/// Decodes three times with each model and returns the best speeds. On the CPU, the runs of the two models
/// alternate. On a GPU, the calibrated model is released before the dense model is loaded, because each model
/// takes all free memory. Returns zeros if a window is too short for these runs.
DecodeSpeeds compare_speeds(const CalibrateCommand& command, std::unique_ptr<ModelRuntime> calibrated,
                            std::span<const int32_t> tokens) {
  constexpr int kRepeats = 3;
  constexpr size_t kPrompt = 16;
  DecodeSpeeds best;
  if (command.n_context < 64) return best;
  ModelOptions options = command.model;
  options.sparsity = Options::Sparsity::kDense;
  options.calibrating = false;
  const auto decode = [&](ModelRuntime& model, double& speed) {
    speed = std::max(speed, decode_speed(model, tokens.first(kPrompt)));
  };
  const bool on_gpu = calibrated->placed().plan != nullptr;
  for (int i = 0; i < kRepeats && on_gpu; ++i) decode(*calibrated, best.calibrated);
  if (on_gpu) calibrated.reset();
  const auto dense = load_model(options, command.n_context, static_cast<int>(kPrompt));
  for (int i = 0; i < kRepeats; ++i) {
    decode(*dense, best.dense);
    if (!on_gpu) decode(*calibrated, best.calibrated);
  }
  return best;
}

void refuse_experts(const CalibrateCommand& command) {
  const ModelFile file = ModelFile::open(command.model.model);
  const ModelSpec spec = read_model_spec(file, command.model.ffn_activation);
  if (!spec.has_equal_ffns()) {
    throw std::runtime_error(
        file_error::file_label(command.model.model) +
        ": its layers' FFNs have different widths, and thresholds are found for equally wide "
        "FFNs only. It runs with --sparsity dense.");
  }
  if (!spec.has_experts()) return;
  throw std::runtime_error(
      file_error::file_label(command.model.model) +
      ": its FFNs are mixtures of experts, and thresholds are found for neurons of whole "
      "FFNs only. It runs with --sparsity dense, where a token reads only its own experts; hearth-profiler "
      "count shows which these are.");
}

std::string rise_text(const PerplexityPair& pair) {
  return fmt::format("{:.4f} dense, {:.4f} calibrated: {:+.2f} %", pair.dense, pair.calibrated,
                     100 * pair.rise());
}

std::string layers_text(const std::vector<double>& skipped) {
  constexpr size_t kPerLine = 10;
  std::string text;
  for (size_t first = 0; first < skipped.size(); first += kPerLine) {
    const size_t end = std::min(skipped.size(), first + kPerLine);
    text += fmt::format("{:<12}", first == 0 ? "by layer, %" : "");
    for (size_t l = first; l < end; ++l) text += fmt::format("{:6.1f}", 100 * skipped[l]);
    text += "\n";
  }
  return text;
}

/// The bytes of weights that are read for one decoded token.
struct BytesRead {
  double dense = 0, calibrated = 0;
};

std::string report(const CalibrateCommand& command, const fs::path& written, const Tokens& tokens,
                   const CalibrateResult& result, const BytesRead& bytes, const DecodeSpeeds& speeds) {
  const size_t window = static_cast<size_t>(command.n_context);
  std::string text = fmt::format(
      "perplexity  of the text {}  (granted {:+.2f} %, {} windows of {} tokens)\n"
      "            held out    {} +/- {:.2f}  ({} windows)\n"
      "neurons     {:.1f} % skipped on the held-out text\n",
      rise_text(result.text), command.budget_percent, tokens.text.size() / window, window,
      rise_text(result.held_out), 100 * result.rise_error, tokens.held_out.size() / window,
      100 * (1 - result.activity.active));
  text += layers_text(result.skipped);
  text += fmt::format("bytes       {:.1f} MB per token dense, {:.1f} MB calibrated: {:.1f} % fewer\n",
                      bytes.dense / 1e6, bytes.calibrated / 1e6, 100 * (1 - bytes.calibrated / bytes.dense));
  if (speeds.dense > 0) {
    text += fmt::format("decode      {:.1f} tokens/s dense, {:.1f} calibrated: {:.2f} times\n", speeds.dense,
                        speeds.calibrated, speeds.calibrated / speeds.dense);
  }
  text += fmt::format("written     {}\n", written.string());
  if (result.held_out.rise() - 2 * result.rise_error > command.budget_percent / 100) {
    text +=
        "On the held-out text perplexity rises by more than the budget: the texts differ, or the first is "
        "too short.\n";
  }
  if (result.activity.active == 1.0) text += "No neuron can be skipped within the budget.\n";
  return text;
}

int run_calibrate(CalibrateCommand command) {
  // 1. Check everything that does not need the model.
  if (!std::isfinite(command.budget_percent)) {
    throw std::runtime_error("--fidelity-budget is not a number, expected one from 0.01 to 100.");
  }
  check_writable(calibration_path(command.model.model));
  const std::string text = read_text(command.text, "--text");
  const std::string held_out = command.held_out.empty() ? "" : read_text(command.held_out, "--held-out");
  if (text == held_out) {
    throw std::runtime_error(command.held_out +
                             ": is the text that thresholds are found on; give --held-out another.");
  }

  refuse_experts(command);

  // 2. Load the model, and tokenize both texts.
  constexpr int kMaxChunk = 512;  // steps longer than this are no faster, but take more memory
  command.model.sparsity = Options::Sparsity::kCalibrated;
  command.model.calibrating = true;
  auto model = load_model(command.model, command.n_context, std::min(command.n_context, kMaxChunk));
  const Tokens tokens = tokenize(command, model->facts().tokenizer, text, held_out);

  // 3. Find thresholds.
  const double budget = command.budget_percent / 100;
  CalibrateResult result;
  {
    ProgressLine line("Calibrating");
    result = calibrate(*model,
                       {.text = tokens.text,
                        .held_out = tokens.held_out,
                        .n_context = command.n_context,
                        .bos = tokens.bos,
                        .budget = budget},
                       [&line](double fraction, std::string_view what) { line.update(fraction, what); });
  }

  // 4. Write the side file, and measure the gain in speed.
  write_calibration(model->facts().file, model->facts().spec,
                    {.thresholds = result.thresholds,
                     .text_sha256 = sha256_hex(text),
                     .fidelity_budget = budget,
                     .dense_perplexity = result.held_out.dense,
                     .perplexity = result.held_out.calibrated,
                     .skipped = 1 - result.activity.active});
  const fs::path written = calibration_path(model->facts().file.path());
  const BytesRead bytes{.dense = model->placed().sparsity.dense_bytes_per_token,
                        .calibrated = model->token_bytes(result.activity).sum()};
  const DecodeSpeeds speeds = compare_speeds(command, std::move(model), tokens.held_out);
  print_result(report(command, written, tokens, result, bytes, speeds));
  return 0;
}

}  // namespace

std::function<int()> add_calibrate_command(CLI::App& app) {
  const auto command = std::make_shared<CalibrateCommand>();
  CLI::App* calibrate = app.add_subcommand(
      "calibrate", "Find which neurons of a SwiGLU or GeGLU model may be skipped, for --sparsity calibrated");
  add_loading_options(*calibrate, command->model);
  add_device_options(*calibrate, command->model);
  calibrate->add_option("--text,-f", command->text, "Text file to find the thresholds on")
      ->required()
      ->type_name("FILE");
  calibrate
      ->add_option("--held-out", command->held_out,
                   "Text file to measure on; not given: the last quarter of --text")
      ->type_name("FILE");
  calibrate
      ->add_option("--fidelity-budget", command->budget_percent,
                   "How much the text's perplexity may rise, in %")
      ->capture_default_str()
      ->type_name("PERCENT")
      ->check(number_from(0.01, 100));
  calibrate->add_option("--window,-c", command->n_context, "Tokens per window")
      ->capture_default_str()
      ->type_name("N")
      ->check(CLI::Range(4, 1 << 20));
  return [command] { return run_calibrate(*command); };
}

}  // namespace hearth
