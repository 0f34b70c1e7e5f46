// Adds the options to a subcommand, and loads the model that they describe.
#include "profiler/options/model_options.h"

#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <utility>

#include "config/command_options.h"
#include "config/environment.h"
#include "engine/placement/solver.h"
#include "kernels/cpu/threads/thread_pool.h"
#include "profiler/engine_options.h"
#include "profiler/machine/known_machine.h"
#include "profiler/options/terminal.h"
#include "profiler/placement/known_activity.h"

namespace hearth {

void add_loading_options(CLI::App& command, ModelOptions& options) {
  options.device = Options::Device::kCpu;
  add_options(command, {"model", "threads", "isa", "activation-bits", "numa", "ffn-activation"}, options);
  command.get_option("--model")->required();
}

void add_model_options(CLI::App& command, ModelOptions& options) {
  add_loading_options(command, options);
  add_options(command, {"sparsity", "predictor-threshold", "verify-predictor"}, options);
}

void add_device_options(CLI::App& command, ModelOptions& options) {
  options.device = Options{}.device;
  add_options(command,
              {"device", "vram-budget", "ram-budget", "split", "prompt-products", "placement", "no-prefetch",
               "prefetch-by", "no-cpu-share", "no-graphs"},
              options);
}

namespace {

/// Returns the inputs for solving a model's placement: this machine's profile, measured if necessary, and the
/// model's known activity.
PlacementFacts solved_here(const ModelOptions& options) {
  std::optional<KnownMachine> known;
  {
    ProgressLine line("Measuring");
    known = known_machine(
        process_environment(), false,
        {.progress = [&line](double fraction, std::string_view what) { line.update(fraction, what); },
         .stop = {}});
  }
  for (const std::string& note : known->notes) std::fprintf(stderr, "%s\n", note.c_str());
  PlacementFacts how{.machine = std::move(known->machine),
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
  return options.threads > 0 ? options.threads : default_thread_count();
}

std::unique_ptr<ModelRuntime> load_model(const ModelOptions& options, int context, int chunk) {
  LoadOptions load = engine_options(options);
  load.n_threads = thread_count(options);
  load.n_slots = options.n_slots;
  load.n_kv_contexts = options.n_kv_contexts;
  load.context_tokens = context;
  load.prefill_chunk = chunk;
  load.sparsity.calibrating = options.calibrating;
  load.trace = options.timeline;
  load.nextn = options.nextn;
  load.assistant = options.assistant;
  std::optional<PlacementFacts> how = options.placed;
  if (!how && options.placement == Options::Placement::kSolved && options.device != Options::Device::kCpu)
    how = solved_here(options);
  if (how) {
    load.prompt_rates = prompt_rates(how->machine);
    load.placement = *std::move(how);
  }
  load.warn = [](const std::string& sentence) { std::fprintf(stderr, "%s\n", sentence.c_str()); };
  ProgressLine line("Loading");
  load.progress = [&line](double fraction) { line.update(fraction); };
  std::unique_ptr<ModelRuntime> model = ModelRuntime::load(load);
  if (!model->facts().spec.arch.has_output) {
    throw std::invalid_argument(
        options.model +
        ": the model is an encoder, which embeds texts and gives no next token, so there is "
        "nothing to measure here; take a model that generates.");
  }
  for (const std::string& note : model->placed().sparsity.notes) std::fprintf(stderr, "%s\n", note.c_str());
  return model;
}

}  // namespace hearth
