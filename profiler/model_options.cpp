// See the header.
#include "profiler/model_options.h"

#include <cstdio>

#include "kernels/cpu/thread_pool.h"
#include "profiler/progress_line.h"

namespace hearth {

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
      ->check(CLI::Range(-1000.0, 1000.0));
  command.add_flag("--verify-predictor", options.verify_predictor,
                   "Predicted mode: compute every gate too, to report recall and false positives");
}

int thread_count(const ModelOptions& options) {
  return options.n_threads > 0 ? options.n_threads : default_thread_count();
}

std::unique_ptr<ModelRuntime> load_model(const ModelOptions& options, int context, int chunk) {
  LoadOptions load;
  load.path = options.model;
  load.n_threads = thread_count(options);
  load.ffn_activation = options.ffn_activation;
  load.isa = isa_from_name(options.isa);  // "auto" is no ISA's name: the best one
  load.n_slots = 1;
  load.context_tokens = context;
  load.prefill_chunk = chunk;
  load.sparsity = {.mode = options.sparsity,
                   .predictor_threshold = options.predictor_threshold,
                   .verify_predictor = options.verify_predictor,
                   .calibrating = options.calibrating};
  ProgressLine line("Loading");
  load.progress = [&line](double fraction) { line.update(fraction); };
  std::unique_ptr<ModelRuntime> model = ModelRuntime::load(load);
  for (const std::string& note : model->sparsity().notes) std::fprintf(stderr, "%s\n", note.c_str());
  return model;
}

}  // namespace hearth
