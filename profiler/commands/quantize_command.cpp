// Defines the quantize subcommand: chooses types, checks, encodes and writes tensors, and reports.
#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "config/command_options.h"
#include "engine/model/gguf/lost_pages.h"
#include "kernels/base/file_error.h"
#include "kernels/cpu/threads/thread_pool.h"
#include "profiler/commands/commands.h"
#include "profiler/options/command_line.h"
#include "profiler/options/terminal.h"
#include "profiler/quantize/quantize_file.h"

namespace hearth {
namespace {

namespace fs = std::filesystem;

struct QuantizeCommand {
  std::string model, type, out, importance;
  bool requantize = false, force = false, dry_run = false;
  Options options;  // only threads and ffn_activation are used
};

std::string known_mix(const std::string& name) {
  if (find_mix(name) != nullptr) return "";
  std::vector<std::string> names;
  for (const QuantMix& mix : quant_mixes()) names.emplace_back(mix.name);
  return fmt::format("There is no type {}, expected one of {}.{}", name, fmt::join(names, ", "),
                     suggestion(name, names));
}

/// Refuses three requests: quantizing quantized tensors again without --requantize, changing no tensor at
/// all, and writing over the model.
void check(const QuantizeCommand& command, const ModelFile& model, const std::vector<TensorChoice>& choices) {
  const std::string label = file_error::file_label(command.model);
  size_t n_quantized = 0, n_chosen = 0;
  const TensorChoice* first = nullptr;
  for (const TensorChoice& choice : choices) {
    if (choice.type == choice.tensor->dtype) continue;
    ++n_chosen;
    if (!is_quantized(choice.tensor->dtype)) continue;
    ++n_quantized;
    if (first == nullptr) first = &choice;
  }
  if (n_chosen == 0) {
    throw std::runtime_error(fmt::format("{}: no tensor would become smaller as {}; there is nothing to do.",
                                         label, find_mix(command.type)->name));
  }
  if (n_quantized > 0 && !command.requantize) {
    throw std::runtime_error(fmt::format(
        "{}: {} of its tensors are already quantized ({} is {}), expected F32, F16 or BF16: rounding twice "
        "loses more than quantizing the original; take the original, or allow it with --requantize.",
        label, n_quantized, file_error::quoted(first->tensor->name), dtype_info(first->tensor->dtype).name));
  }
  std::error_code error;
  if (fs::equivalent(command.out, model.path(), error)) {
    throw std::runtime_error(label + ": it is the model itself; give --out another name.");
  }
}

/// Replaces the layer's number in a tensor's name by *, as in "blk.*.ffn_up.weight", so that the tensors of
/// all layers share a line of the output.
std::string in_all_layers(std::string_view name) {
  if (!name.starts_with("blk.")) return std::string(name);
  const size_t end = name.find('.', 4);
  return end == name.npos ? std::string(name) : "blk.*" + std::string(name.substr(end));
}

std::string choices_text(const std::vector<TensorChoice>& choices) {
  struct Sum {
    size_t n = 0;
    uint64_t weights = 0;
  };
  std::map<DType, Sum> types;
  std::map<std::string, std::pair<const TensorChoice*, size_t>> others;
  uint64_t n_weights = 0;
  double bits = 0;
  for (const TensorChoice& choice : choices) {
    const uint64_t n = static_cast<uint64_t>(choice.tensor->shape[0] * choice.tensor->shape[1] *
                                             choice.tensor->shape[2] * choice.tensor->shape[3]);
    Sum& sum = types[choice.type];
    ++sum.n;
    sum.weights += n;
    n_weights += n;
    bits += bits_of(choice.type) * static_cast<double>(n);
    if (choice.type == choice.wanted) continue;
    auto& [example, count] = others[in_all_layers(choice.tensor->name)];
    example = &choice;
    ++count;
  }
  std::string text = fmt::format("{:.2f} bits a weight\n", bits / static_cast<double>(n_weights));
  for (const auto& [type, sum] : types) {
    text += fmt::format("  {:<6} {:>5} tensors, {} weights\n", dtype_info(type).name, sum.n,
                        file_error::with_commas(sum.weights));
  }
  for (const auto& [name, found] : others) {
    const auto& [example, count] = found;
    text += fmt::format(
        "  {} instead of {}: {} of {} tensors, whose rows of {} weights are not a multiple of {}\n",
        dtype_info(example->type).name, dtype_info(example->wanted).name, name, count,
        file_error::with_commas(static_cast<uint64_t>(example->tensor->shape[0])),
        dtype_info(example->wanted).block_elems);
  }
  return text;
}

int run_quantize(const QuantizeCommand& command) {
  // 1. Choose the types, and check everything that would otherwise fail only after minutes of work.
  gguf::survive_lost_pages();
  const ModelFile model = ModelFile::open(command.model);
  const QuantMix& mix = *find_mix(command.type);
  const std::vector<TensorChoice> choices = choose_types(model, mix);
  check(command, model, choices);
  Importance importance;
  if (!command.importance.empty()) {
    importance = Importance::read(command.importance, model, command.options.ffn_activation);
  }
  if (command.dry_run) {
    print_result(
        fmt::format("{} as {}: {}", file_error::file_label(command.model), mix.name, choices_text(choices)));
    return 0;
  }

  // 2. Encode and write.
  const SignalWatch watch;  // on a signal, lets the program remove the partly written file before it exits
  const int n_threads = command.options.threads > 0 ? command.options.threads : default_thread_count();
  const auto begin = std::chrono::steady_clock::now();
  uint64_t n_bytes = 0;
  try {
    ProgressLine line("Quantizing");
    n_bytes = quantize_file(command.out, model, choices, importance,
                            {.file_type = mix.file_type, .n_threads = n_threads, .replace = command.force},
                            [&](double share) {
                              if (watch.stopped()) throw Interrupted{};
                              line.update(share);
                            });
  } catch (const Interrupted&) {
    std::fputs("hearth-profiler: interrupted; the unfinished file is removed.\n", stderr);
    return watch.exit_code();
  }

  // 3. Report.
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::string text = fmt::format("{}: {} bytes of {}, {}", file_error::file_label(command.out),
                                 file_error::with_commas(n_bytes),
                                 file_error::with_commas(model.total_bytes()), choices_text(choices));
  if (!command.importance.empty()) text += "  columns weighted by the " + importance.sentence() + "\n";
  text += fmt::format("  {:.1f} s, {:.0f} MB/s read, {} threads\n", seconds,
                      static_cast<double>(model.total_bytes()) / 1e6 / seconds, n_threads);
  print_result(text);
  return 0;
}

/// Returns "Types:" and one line for each type.
std::string mix_table() {
  std::string text =
      "Types, the largest first (bits per weight, not counting the additional bits of the output and of some "
      "layers):";
  for (const QuantMix& mix : quant_mixes())
    text += fmt::format("\n  {:<7} {:.2f}", mix.name, bits_of(mix.ffn));
  return text;
}

}  // namespace

std::function<int()> add_quantize_command(CLI::App& app) {
  // Shared by the options' callbacks and the returned function.
  const auto command = std::make_shared<QuantizeCommand>();
  CLI::App* quantize = app.add_subcommand("quantize", "Write a model with fewer bits per weight");
  quantize->footer(mix_table());
  quantize->add_option("model", command->model, "GGUF file in F32, F16 or BF16, or any part of a split one")
      ->required()
      ->type_name("FILE");
  quantize->add_option("--type", command->type, "Type of the new matrices, see below")
      ->required()
      ->type_name("NAME")
      ->check(known_mix);
  CLI::Option* out = quantize->add_option("--out,-o", command->out, "File to write")->type_name("FILE");
  quantize
      ->add_option("--importance", command->importance,
                   "How important each column is: the model's activity file (hearth-profiler count), or an "
                   "importance matrix of llama-imatrix")
      ->type_name("FILE");
  quantize->add_flag(
      "--requantize", command->requantize,
      "Accept a model that is already quantized; this loses more than quantizing the original");
  quantize->add_flag("--dry-run", command->dry_run, "Only print the type that each tensor would get")
      ->excludes(out);
  quantize->add_flag("--force", command->force, "Replace an existing file");
  add_options(*quantize, {"threads", "ffn-activation"}, command->options);
  return [command] {
    if (command->out.empty() && !command->dry_run) {
      throw std::runtime_error("--out is missing, expected the name of the file to write.");
    }
    return run_quantize(*command);
  };
}

}  // namespace hearth
