// See the header.
#include "profiler/commands/model_options.h"

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <utility>

#include "config/environment.h"
#include "kernels/cpu/thread_pool.h"
#include "profiler/commands/command_line.h"
#include "profiler/commands/terminal.h"
#include "profiler/machine/known_machine.h"
#include "profiler/placement/known_activity.h"
#include "profiler/placement/solved_placement.h"

namespace hearth {
namespace {

// As hearthd has them: from a megabyte to more than any machine has.
constexpr double kMinBudgetGib = 0.001, kMaxBudgetGib = 1 << 20;

void add_budget(CLI::App& command, const std::string& name, const std::string& help,
                std::optional<double>& gib) {
  const auto parse = [&gib, name](const std::string& text) {
    gib.reset();
    if (text == "auto") return;
    double value = 0;
    const char* end = text.data() + text.size();
    const std::from_chars_result result = std::from_chars(text.data(), end, value);
    // Not a number fails the comparison too.
    if (result.ec != std::errc() || result.ptr != end ||
        !(value >= kMinBudgetGib && value <= kMaxBudgetGib)) {
      throw CLI::ValidationError(name, text + " is neither auto nor a number of GiB from 0.001 to 1048576");
    }
    gib = value;
  };
  command.add_option_function<std::string>(name, parse, help)->type_name("GIB");
}

uint64_t bytes_of_gib(double gib) { return static_cast<uint64_t>(gib * (1 << 30)); }

DeviceChoice device_choice(const std::string& name) {
  if (name == "cpu") return DeviceChoice::kCpu;
  return name == "cuda" ? DeviceChoice::kCuda : DeviceChoice::kAuto;
}

}  // namespace

void add_loading_options(CLI::App& command, ModelOptions& options) {
  command.add_option("--model,-m", options.model, "GGUF model file")->required()->type_name("FILE");
  command.add_option("--threads,-t", options.n_threads, "CPU threads; 0: one per physical core")
      ->type_name("N")
      ->check(CLI::Range(0, 1024));
  command.add_option("--isa", options.isa, "auto, scalar, avx2 or avx512-vnni")
      ->type_name("NAME")
      ->check(CLI::IsMember({"auto", "scalar", "avx2", "avx512-vnni"}));
  command
      .add_option(
          "--ffn-activation", options.ffn_activation,
          "FFN activation where the file does not say it: relu, drelu, fatrelu:T, relu2, silu or gelu")
      ->type_name("NAME");
}

void add_model_options(CLI::App& command, ModelOptions& options) {
  add_loading_options(command, options);
  command
      .add_option("--sparsity", options.sparsity,
                  "Which FFN neurons are computed: auto, exact, predicted, calibrated or dense")
      ->capture_default_str()
      ->type_name("MODE")
      ->check(CLI::IsMember({"auto", "exact", "predicted", "calibrated", "dense"}));
  command
      .add_option("--predictor-threshold", options.predictor_threshold,
                  "Predicted mode: least logit that proposes a neuron; not given: the model file's")
      ->type_name("X")
      ->check(number_from(-1000, 1000));
  command.add_flag("--verify-predictor", options.verify_predictor,
                   "Predicted mode: compute every gate too, to report recall and false positives");
}

void add_device_options(CLI::App& command, ModelOptions& options) {
  options.device = "auto";
  command
      .add_option("--device", options.device,
                  "What computes: auto (the GPU, together with the CPU, if there is one), cuda or cpu")
      ->capture_default_str()
      ->type_name("NAME")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  add_budget(command, "--vram-budget", "GiB of the GPU's memory to use, or auto: what is free of it",
             options.vram_budget_gib);
  add_budget(command, "--ram-budget", "GiB of memory to reserve besides the model file's pages, or auto",
             options.ram_budget_gib);
  command
      .add_option("--split", options.split,
                  "What a GPU too small for the model gets: neurons of every layer, or whole layers")
      ->capture_default_str()
      ->type_name("NAME")
      ->check(CLI::IsMember({"neurons", "layers"}));
  command
      .add_option("--placement", options.placement,
                  "Which neurons it gets: neutral (as many of each layer) or solved for this machine")
      ->capture_default_str()
      ->type_name("NAME")
      ->check(CLI::IsMember({"neutral", "solved"}));
  command.add_flag("--no-prefetch", options.no_prefetch,
                   "No neurons are brought to the GPU ahead of their use");
  command
      .add_option("--prefetch-by", options.prefetch_by,
                  "What brings them: a kernel that gathers them from memory, or the copy engine (dma)")
      ->capture_default_str()
      ->type_name("NAME")
      ->check(CLI::IsMember({"gather", "dma"}));
  command.add_flag("--no-cpu-share", options.no_cpu_share,
                   "The CPU computes no neurons of the GPU's layers: they are streamed to it");
  command.add_flag("--no-graphs", options.no_graphs, "The GPU's steps are not recorded and played back");
}

namespace {

/// What the placement of a model is solved with: this machine, measured once, and what lies beside the model.
SolvedPlacement solved_here(const ModelOptions& options) {
  std::optional<KnownMachine> known;
  {
    ProgressLine line("Measuring");
    known = known_machine(
        process_environment(), false,
        {.progress = [&line](double fraction, std::string_view what) { line.update(fraction, what); },
         .stop = {}});
  }
  for (const std::string& note : known->notes) std::fprintf(stderr, "%s\n", note.c_str());
  SolvedPlacement how{
      .machine = std::move(known->machine),
      .activity = known_activity(process_environment(), options.model, options.ffn_activation),
      .ram_bytes = 0,
      .assumptions = {},
      .found = {}};
  how.ram_bytes = options.ram_budget_gib ? static_cast<int64_t>(bytes_of_gib(*options.ram_budget_gib))
                                         : how.machine.host.ram_bytes;
  how.found = [](const PlacementSolution& solution) {
    std::fprintf(stderr, "placement solved: %.3g tokens/s expected, %.0f %% of activations on the GPU\n",
                 1 / solution.seconds(), 100 * solution.caught);
  };
  return how;
}

}  // namespace

int thread_count(const ModelOptions& options) {
  return options.n_threads > 0 ? options.n_threads : default_thread_count();
}

std::unique_ptr<ModelRuntime> load_model(const ModelOptions& options, int context, int chunk) {
  LoadOptions load;
  load.path = options.model;
  load.n_threads = thread_count(options);
  load.ffn_activation = options.ffn_activation;
  load.isa = isa_from_name(options.isa);  // "auto" is no ISA's name: the best one
  load.n_slots = options.n_slots;
  load.context_tokens = context;
  load.prefill_chunk = chunk;
  load.sparsity = {.mode = options.sparsity,
                   .predictor_threshold = options.predictor_threshold,
                   .verify_predictor = options.verify_predictor,
                   .calibrating = options.calibrating};
  load.device = device_choice(options.device);
  if (options.vram_budget_gib) load.vram_budget_bytes = bytes_of_gib(*options.vram_budget_gib);
  if (options.ram_budget_gib) load.memory_limit_bytes = bytes_of_gib(*options.ram_budget_gib);
  load.split = options.split == "layers" ? DeviceSplit::kLayers : DeviceSplit::kNeurons;
  load.prefetch = !options.no_prefetch;
  load.prefetch_way = options.prefetch_by == "dma" ? cuda::CopyWay::kDma : cuda::CopyWay::kGather;
  load.cpu_share = !options.no_cpu_share;
  load.graphs = !options.no_graphs;
  load.trace = options.trace;
  std::optional<SolvedPlacement> how = options.placed;
  if (!how && options.placement == "solved" && options.device != "cpu") how = solved_here(options);
  if (how) {
    load.place = [how = *std::move(how)](const PlanInputs& inputs, size_t budget) {
      return solve_for(how, inputs, budget);
    };
  }
  load.warn = [](const std::string& sentence) { std::fprintf(stderr, "%s\n", sentence.c_str()); };
  ProgressLine line("Loading");
  load.progress = [&line](double fraction) { line.update(fraction); };
  std::unique_ptr<ModelRuntime> model = ModelRuntime::load(load);
  for (const std::string& note : model->sparsity().notes) std::fprintf(stderr, "%s\n", note.c_str());
  return model;
}

}  // namespace hearth
