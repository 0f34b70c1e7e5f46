// Defines the synth subcommand: checks the options, makes a model and writes it. With --trace, it makes a
// trace of chosen experts instead of a model.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "config/command_options.h"
#include "engine/model/ffn_activation.h"
#include "engine/residency/memory_limit.h"
#include "kernels/base/file_error.h"
#include "kernels/base/whole_file.h"
#include "kernels/cpu/threads/thread_pool.h"
#include "kernels/quant/quantize.h"
#include "profiler/commands/commands.h"
#include "profiler/options/choice_options.h"
#include "profiler/options/command_line.h"
#include "profiler/options/terminal.h"
#include "profiler/plan/planned_model.h"
#include "profiler/synthesis/planted_trace.h"
#include "profiler/synthesis/shapes.h"
#include "profiler/synthesis/synth_file.h"
#include "profiler/synthesis/synth_model.h"

namespace hearth {
namespace {

namespace fs = std::filesystem;

constexpr double kActiveInExperts = 0.1;  // typical of experts with ReLU-like activations

struct SynthCommand {
  std::string shape, quant = "q4_0", out, trace;
  std::optional<double> active;  // value the user gave; otherwise the default
  ChoiceOptions choice;
  uint64_t seed = 1;
  int n_vocab = 0, n_layers = 0;          // 0: the shape's number
  int n_tokens = 4096, topic_tokens = 0;  // sizes of the trace
  Options options;                        // only `threads` is used
  bool pwri = false, both = false, force = false;
};

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

std::vector<std::string> quant_names() {
  std::vector<std::string> names;
  for (int i = 0; i < kDTypeCount; ++i) {
    if (can_quantize(static_cast<DType>(i))) names.push_back(lower(dtype_info(static_cast<DType>(i)).name));
  }
  return names;
}

/// Returns an error message, or an empty string if a shape of this name exists.
std::string known_shape(const std::string& name) {
  return find_shape(name) != nullptr ? ""
                                     : "There is no shape \"" + name + "\", expected one of " + shape_names();
}

/// Returns the text "Shapes:" and one line for each architecture.
std::string shape_table() {
  std::string text = "Shapes:";
  std::string_view architecture;
  for (const ModelShape& shape : model_shapes()) {
    text += shape.architecture == architecture ? ", " : "\n  " + std::string(shape.architecture) + ": ";
    text += shape.name;
    architecture = shape.architecture;
  }
  return text;
}

DType dtype_of(const std::string& name) {
  int i = 0;
  while (lower(dtype_info(static_cast<DType>(i)).name) != name) ++i;  // the parser let only known names pass
  return static_cast<DType>(i);
}

/// Returns the path of the sparse file: m.gguf becomes m.powerinfer.gguf, as PowerInfer's own files are
/// named.
fs::path sparse_path_beside(const fs::path& plain) {
  fs::path path = plain;
  if (path.extension() == ".gguf") path.replace_extension();
  path += ".powerinfer.gguf";
  return path;
}

struct Target {
  fs::path path;
  SynthKind kind;
  uint64_t bytes;
};

std::vector<Target> targets_of(const SynthCommand& command, const SynthSizes& sizes) {
  std::vector<Target> targets;
  const fs::path out = command.out;
  if (!command.pwri) targets.push_back({out, SynthKind::kPlain, sizes.plain_bytes});
  if (command.pwri || command.both) {
    targets.push_back({command.both ? sparse_path_beside(out) : out, SynthKind::kSparse, sizes.sparse_bytes});
  }
  return targets;
}

[[noreturn]] void refuse(const fs::path& path, const std::string& sentence) {
  throw std::runtime_error(file_error::file_label(path.string()) + ": " + sentence + ".");
}

/// Checks everything that would otherwise fail only after minutes of work.
void check_room(const std::vector<Target>& targets, const SynthSizes& sizes, bool force) {
  uint64_t bytes = 0;
  for (const Target& target : targets) {
    std::error_code error;
    if (!force && fs::exists(target.path, error)) {
      refuse(target.path, "it exists already; choose another name, or replace it with --force");
    }
    bytes += target.bytes;
  }
  const fs::path& path = targets.front().path;
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::error_code error;
  if (!fs::is_directory(folder, error)) refuse(path, "its folder does not exist; make it first");
  const fs::space_info room = fs::space(folder, error);
  if (!error && room.available < bytes) {
    refuse(path, "it takes " + file_error::with_commas(bytes) + " bytes of disk, but there are " +
                     file_error::with_commas(room.available) +
                     " free; make room, or choose a smaller shape or type");
  }
  const uint64_t memory = memory_limit_bytes();
  if (sizes.memory_bytes > memory / 10 * 9) {
    refuse(path, "making it takes " + file_error::with_commas(sizes.memory_bytes) +
                     " bytes of memory, two layers and the embeddings, and this machine has " +
                     file_error::with_commas(memory) + "; choose a smaller shape or type");
  }
}

/// Refuses shapes that cannot be made, and options that have no effect on this shape.
void check_options(const SynthCommand& command) {
  const ModelShape& shape = *find_shape(command.shape);
  const std::string name(shape.name);
  if (command.active && !shape.has_zero_neurons()) {
    throw std::invalid_argument("--active says how many neurons fire, and those of " + name +
                                " are never zero; leave it out.");
  }
  if (shape.d_shared > 0 && !shape.is_hybrid()) {
    throw std::invalid_argument(name + " has an expert that all tokens share, which synth cannot make; " +
                                "plan and bench --simulate take the shape.");
  }
  if (command.choice.reuse && shape.is_hybrid() && shape.has_experts()) {
    throw std::invalid_argument(
        "--expert-reuse is not planted in models with layers of several kinds, such as " + name +
        "; leave it out.");
  }
  command.choice.check(shape.has_experts(), name);
  if ((command.pwri || command.both) && shape.predictor_rank == 0) {
    throw std::invalid_argument("PowerInfer has no files of models like " + name +
                                "; leave --pwri and --both out, or choose another shape.");
  }
}

SynthOptions options_of(const SynthCommand& command) {
  SynthOptions options;
  options.shape = *find_shape(command.shape);
  if (command.n_vocab > 0) options.shape.n_vocab = command.n_vocab;
  if (command.n_layers > 0) options.shape = with_layers(options.shape, command.n_layers);
  options.active = command.active.value_or(options.shape.has_experts() ? kActiveInExperts : options.active);
  options.expert_skew = command.choice.law().skew;
  options.expert_reuse = command.choice.law().reuse;
  options.dtype = dtype_of(command.quant);
  options.seed = command.seed;
  options.plain = !command.pwri;
  options.sparse = command.pwri || command.both;
  options.n_threads = command.options.threads > 0 ? command.options.threads : default_thread_count();
  return options;
}

void make_and_write(const SynthCommand& command, const SynthOptions& options,
                    const std::vector<Target>& targets, int64_t n_elements, const SignalWatch& watch) {
  // Rough costs in ns, from which the remaining time is estimated: an element takes one thread 2 ns, and a
  // byte takes 1 ns (a disk of 1 GB/s).
  const double making = 2.0 * static_cast<double>(n_elements) / options.n_threads;
  double total = making;
  for (const Target& target : targets) total += static_cast<double>(target.bytes);
  ProgressLine line("Making " + std::string(options.shape.name));
  const auto update = [&](double cost) {
    if (watch.stopped()) throw Interrupted{};
    line.update(std::min(1.0, cost / total));
  };
  const SynthModel model = make_synth_model(options, [&](double fraction) { update(fraction * making); });
  double before = making;
  for (const Target& target : targets) {
    write_synth_file(target.path, target.kind, options, model, command.force,
                     [&](uint64_t n_bytes) { update(before + static_cast<double>(n_bytes)); });
    before += static_cast<double>(target.bytes);
  }
}

/// The identity of the model for which a trace is planted. The model has no weights.
ModelIdentity planted_identity(const ModelSpec& spec) {
  return {.name = spec.name,
          .activation = ffn_activation_name(spec.activation),
          .n_layers = spec.n_layers,
          .d_model = spec.d_model,
          .d_ff = spec.d_ff,
          .n_experts = spec.mixture.n_experts,
          .content = sha256(std::string_view("planted"))};
}

int run_synth_trace(const SynthCommand& command) {
  ModelShape shape = *find_shape(command.shape);
  if (!shape.has_experts()) {
    throw std::invalid_argument("--trace plants the choice of experts, and " + std::string(shape.name) +
                                " has none; choose another shape.");
  }
  const fs::path path = command.trace;
  std::error_code error;
  if (!command.force && fs::exists(path, error)) {
    refuse(path, "it exists already; choose another name, or replace it with --force");
  }
  if (command.n_layers > 0) shape = with_layers(shape, command.n_layers);
  const PlannedModel model = model_of_shape(shape, dtype_of(command.quant), {});
  ChoiceLaw law = command.choice.law();
  law.topic_tokens = command.topic_tokens;
  law.seed = command.seed;
  ExpertTrace trace{.model = planted_identity(model.spec),
                    .n_used = model.spec.mixture.n_used,
                    .layers = traced_layers(model.spec, model.weights),
                    .runs = {},
                    .experts = {}};
  {
    ProgressLine line("Planting");
    plant_trace(model.spec, law, command.n_tokens, trace, [&](double fraction) { line.update(fraction); });
  }
  write_whole_file(path, expert_trace_bytes(trace));
  std::printf("%s: %s tokens, %s bytes\n", file_error::file_label(path.string()).c_str(),
              file_error::with_commas(trace.n_tokens()).c_str(),
              file_error::with_commas(fs::file_size(path)).c_str());
  return 0;
}

int run_synth(const SynthCommand& command) {
  if (!command.trace.empty()) return run_synth_trace(command);
  if (command.out.empty()) {
    throw std::invalid_argument("synth needs the file to write: --out FILE for a model, or --trace FILE.");
  }
  check_options(command);
  const SynthOptions options = options_of(command);
  const SynthSizes sizes = synth_sizes(options);
  const std::vector<Target> targets = targets_of(command, sizes);
  check_room(targets, sizes, command.force);
  const SignalWatch watch;  // on a signal, lets the program remove partly written files before it exits
  try {
    make_and_write(command, options, targets, sizes.made_elements, watch);
  } catch (const Interrupted&) {
    std::fputs("hearth-profiler: interrupted; the unfinished file is removed.\n", stderr);
    return watch.exit_code();
  }
  for (const Target& target : targets) {
    std::printf("%s: %s bytes\n", file_error::file_label(target.path.string()).c_str(),
                file_error::with_commas(fs::file_size(target.path)).c_str());
  }
  return 0;
}

/// Adds --trace and the options that apply only to traces. REQUIRES: all other options were added before,
/// because --trace excludes the options that apply only to models.
void add_trace_options(CLI::App& synth, SynthCommand& command) {
  CLI::Option* trace =
      synth
          .add_option("--trace", command.trace,
                      "Write only a trace of the experts that tokens choose in a mixture of this shape, for "
                      "replay")
          ->type_name("FILE");
  for (const char* of_model : {"--out", "--active", "--vocab", "--pwri", "--both"})
    trace->excludes(synth.get_option(of_model));
  synth.add_option("--tokens,-n", command.n_tokens, "Tokens of the trace")
      ->capture_default_str()
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20))
      ->needs(trace);
  synth
      .add_option("--topic-tokens", command.topic_tokens,
                  "Tokens after which the trace's topic changes, and with it the hot experts; 0: never")
      ->capture_default_str()
      ->type_name("N")
      ->check(CLI::Range(0, 1 << 20))
      ->needs(trace);
}

}  // namespace

std::function<int()> add_synth_command(CLI::App& app) {
  // Shared by the options' callbacks and the returned function.
  const auto command = std::make_shared<SynthCommand>();
  CLI::App* synth = app.add_subcommand("synth", "Write a random-weight model with planted FFN activity");
  synth->footer(shape_table());
  synth->add_option("--shape", command->shape, "Shape of the model, see below")
      ->required()
      ->type_name("NAME")
      ->check(known_shape);
  synth->add_option("--out,-o", command->out, "File for the model; needed unless --trace is given")
      ->type_name("FILE");
  synth
      ->add_option("--active", command->active,
                   "Mean share of neurons that fire, 0.005 to 0.95 (default: 0.18, in experts 0.1)")
      ->type_name("SHARE")
      ->check(number_from(0.005, 0.95));
  add_choice_options(*synth, command->choice);
  synth->add_option("--quant", command->quant, "Type of the matrices")
      ->capture_default_str()
      ->type_name("NAME")
      ->check(CLI::IsMember(quant_names()));
  synth->add_option("--vocab", command->n_vocab, "Tokens of the vocabulary (default: the shape's)")
      ->type_name("N")
      ->check(CLI::Range(kMinSynthVocabulary, kMaxSynthVocabulary));
  synth->add_option("--layers", command->n_layers, "Layers (default: the shape's)")
      ->type_name("N")
      ->check(CLI::Range(2, 1024));
  synth->add_option("--seed", command->seed, "Seed of the weights, or of the trace")
      ->capture_default_str()
      ->type_name("N")
      ->check(CLI::Range(int64_t{0}, std::numeric_limits<int64_t>::max()));
  add_options(*synth, {"threads"}, command->options);
  CLI::Option* pwri = synth->add_flag("--pwri", command->pwri, "Write the file in PowerInfer's format");
  synth
      ->add_flag("--both", command->both,
                 "Write FILE, and the same model in PowerInfer's format with the name .powerinfer.gguf")
      ->excludes(pwri);
  synth->add_flag("--force", command->force, "Replace existing files");
  add_trace_options(*synth, *command);
  return [command] { return run_synth(*command); };
}

}  // namespace hearth
