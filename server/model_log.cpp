// See the header.
#include "server/model_log.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <limits>

#include "engine/residency/plan.h"
#include "server/process/logging.h"
#include "server/runtime_facts.h"

namespace hearth {
namespace {

std::string megabytes(size_t bytes) { return std::to_string((bytes + 500'000) / 1'000'000) + " MB"; }

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f %%", 100 * share);
  return text;
}

/// Example: "16384 tokens: 4 requests of 4096 tokens each, or 2 requests of 8192 tokens each".
std::string pool_text(const ModelRuntime& model, int n_slots) {
  const StepLimits limits = model.limits();
  const int64_t n_tokens = int64_t{limits.n_blocks} * limits.block_tokens;
  const int context = model.facts().context_tokens;
  const int64_t n_whole = n_tokens / context;
  const auto requests = [](int64_t n, int64_t tokens) {
    return std::to_string(n) + (n == 1 ? " request" : " requests") + " of " + std::to_string(tokens) +
           (n == 1 ? " tokens" : " tokens each");
  };
  std::string text = std::to_string(n_tokens) +
                     " tokens: " + requests(n_slots, std::min<int64_t>(n_tokens / n_slots, context));
  if (n_whole < n_slots) text += ", or " + requests(n_whole, context);
  return text;
}

/// Logs the memory of the weights and the KV cache, the KV cache's capacity in tokens, and the layers that
/// have a window.
void log_memory(const ModelRuntime& model, int n_slots) {
  LogFields fields = {{"weights", megabytes(model.facts().weight_bytes)},
                      {"kv_cache", megabytes(model.placed().kv_bytes)},
                      {"kv_type", kv_type_name(model.placed().kv_type)},
                      {"room", pool_text(model, n_slots)}};
  if (const KvWindow window = model.limits().window) {
    const ModelSpec& spec = model.facts().spec;
    const auto n =
        std::ranges::count_if(spec.layers, [](const LayerSpec& layer) { return layer.window > 0; });
    fields.push_back({"kv_windows", std::to_string(n) + " of " + std::to_string(spec.n_layers) +
                                        " layers keep what a window of " +
                                        std::to_string(window.n_positions) + " tokens sees"});
  }
  log_info("memory", fields);
}

/// Logs the part of the model that is on the GPU, the reason why the part is not larger, and the layer that
/// drafts.
void log_placement(const ModelRuntime& runtime) {
  if (runtime.placed().plan != nullptr) {
    for (const std::string& line : runtime.placed().plan->lines(runtime.facts().spec)) log_info(line);
  }
  for (const std::string& note : runtime.placed().notes) log_warning(note);
  if (!runtime.limits().predicts) return;
  if (runtime.assisted()) return log_info("the assistant drafts");
  const int most = runtime.limits().most_predicted;  // one for each layer, or any number by one layer
  const int first = runtime.facts().spec.n_layers,
            n_heads = most < std::numeric_limits<int>::max() ? most : 1;
  const std::string layers =
      n_heads == 1 ? "layer " + std::to_string(first) + ", which predicts later tokens, drafts"
                   : "layers " + std::to_string(first) + " to " + std::to_string(first + n_heads - 1) +
                         ", which predict later tokens, draft";
  log_info(layers + " (--speculate text turns this off)");
}

void log_sparsity(const SparsityReport& report) {
  LogFields fields = {{"mode", std::string(sparsity_name(report.mode))}, {"why", report.reason}};
  if (report.activity.n_tokens > 0) fields.push_back({"active_neurons", percent(report.activity.active)});
  if (report.mode == Sparsity::kPredicted) {
    fields.push_back({"proposed_neurons", percent(report.activity.proposed)});
    fields.push_back({"predictor_threshold", report.predictor_threshold});
  }
  fields.push_back({"per_token", megabytes(static_cast<size_t>(report.bytes_per_token))});
  fields.push_back({"dense_per_token", megabytes(static_cast<size_t>(report.dense_bytes_per_token))});
  // For most models, nothing can be skipped, so there is nothing to say.
  const bool is_usual = report.mode == Sparsity::kDense && report.notes.empty();
  (is_usual ? log_debug : log_info)("sparsity", fields);
  for (const std::string& note : report.notes) log_info("sparsity", {{"note", note}});
}

}  // namespace

void log_model(const std::string& name, const ModelRuntime& runtime, const EngineOptions& engine,
               bool can_chat) {
  const ModelSpec& spec = runtime.facts().spec;
  int64_t n_parameters = 0;
  for (const TensorInfo& tensor : runtime.facts().file.tensors()) {
    n_parameters += tensor.shape[0] * tensor.shape[1] * tensor.shape[2] * tensor.shape[3];
  }
  log_info("model", {{"name", name},
                     {"architecture", std::string(spec.arch.name)},
                     {"parameters", std::to_string((n_parameters + 500'000) / 1'000'000) + " M"},
                     {"layers", spec.n_layers},
                     {"trained_context", spec.context_train},
                     {"chat", can_chat}});
  if (spec.n_scores > 0) {
    log_info("the model is a reranker: it serves /v1/rerank, and neither embeds nor generates text");
  } else if (!spec.arch.has_output) {
    log_info("the model is an encoder: it serves /v1/embeddings, with " + std::to_string(spec.d_model) +
             " dimensions, and generates no text");
  }
  log_info("engine", {{"backend", runtime.placed().backend},
                      {"slots", engine.n_slots},
                      {"context", runtime.facts().context_tokens},
                      {"prefill_chunk", runtime.facts().prompt_step.tokens},
                      {"beside_streams", runtime.facts().prompt_step.beside_streams},
                      {"queue", engine.queue_capacity}});
  log_sparsity(runtime.placed().sparsity);
  log_placement(runtime);
  log_memory(runtime, engine.n_slots);
}

void log_draft_model(const ModelRuntime& drafter) {
  log_info("draft model",
           {{"file", drafter.facts().file.path().filename().string()},
            {"layers", drafter.facts().spec.n_layers},
            {"backend", drafter.placed().backend},
            {"context", drafter.facts().context_tokens},
            {"memory", megabytes(drafter.facts().file.total_bytes() + reserved_bytes(drafter))}});
}

}  // namespace hearth
