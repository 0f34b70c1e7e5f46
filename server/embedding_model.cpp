// See the header.
#include "server/embedding_model.h"

#include <algorithm>
#include <ctime>
#include <stdexcept>
#include <utility>

#include "engine/warm_up.h"
#include "kernels/cpu/threads/thread_pool.h"
#include "profiler/engine_options.h"
#include "server/process/logging.h"
#include "server/process/start_error.h"

namespace hearth {
namespace {

LoadOptions load_options(const Options& options) {
  LoadOptions load;
  load.path = options.embedding_model;
  load.isa = engine_isa(options.isa);
  load.activation_bits = engine_activation_bits(options.activation_bits);
  load.spread_memory = options.numa == Options::Numa::kInterleave;
  load.n_threads = std::max(1, (options.threads > 0 ? options.threads : default_thread_count()) / 2);
  load.n_slots = kEmbeddingSlots;
  load.n_kv_contexts = 1;
  load.context_tokens = options.embedding_context;
  load.prefill_chunk = options.prefill_chunk;
  if (options.ram_budget_gib) load.memory_limit_bytes = bytes_of_gib(*options.ram_budget_gib);
  load.warn = [](const std::string& sentence) { log_warning("embedding model: " + sentence); };
  return load;
}

}  // namespace

std::unique_ptr<EmbeddingModel> EmbeddingModel::load(std::shared_ptr<const ModelFile> file,
                                                     const Options& options, std::vector<std::string> names,
                                                     std::function<void(double)> progress) try {
  auto model = std::make_unique<EmbeddingModel>();
  model->names_ = std::move(names);
  model->created_ = static_cast<int64_t>(std::time(nullptr));
  LoadOptions load = load_options(options);
  load.file = std::move(file);
  load.progress = std::move(progress);
  model->runtime_ = ModelRuntime::load(load);
  EngineOptions engine;
  engine.n_slots = kEmbeddingSlots;
  engine.context_tokens = model->runtime_->facts().context_tokens;
  warm_up(*model->runtime_, {.n_slots = engine.n_slots, .context_tokens = engine.context_tokens});
  engine.queue_capacity = options.queue;
  engine.prefill_chunk = model->runtime_->facts().prompt_step.tokens;
  model->engine_ = std::make_unique<Engine>(*model->runtime_, engine);
  return model;
} catch (const ModelFileError& error) {
  throw StartError(error.what());
} catch (const std::invalid_argument& error) {
  throw StartError(std::string("--embedding-model: ") + error.what());
}

uint64_t EmbeddingModel::reserved_bytes() const {
  const PlacedModel& placed = runtime_->placed();
  return placed.kv_bytes + placed.work_bytes + placed.neuron_bytes;
}

EmbeddingTarget EmbeddingModel::target() const {
  const LoadedModel& facts = runtime_->facts();
  return {.names = names_,
          .created = created_,
          .context_tokens = facts.context_tokens,
          .n_dimensions = facts.spec.d_model,
          .pooling = facts.spec.pooling,
          .looks_ahead = facts.spec.arch.looks_ahead,
          .facts = read_model_file_facts(facts.file, facts.spec),
          .device = runtime_->placed().backend,
          .tokenizer = &facts.tokenizer,
          .engine = engine_.get()};
}

void EmbeddingModel::log_summary() const {
  const ModelSpec& spec = runtime_->facts().spec;
  log_info("embedding model",
           {{"name", name()},
            {"architecture", std::string(spec.arch.name)},
            {"dimensions", spec.d_model},
            {"pooling", std::string(pooling_name(spec.pooling))},
            {"backend", runtime_->placed().backend},
            {"slots", engine_->options().n_slots},
            {"context", runtime_->facts().context_tokens},
            {"memory", std::to_string((file_bytes() + reserved_bytes() + 500'000) / 1'000'000) + " MB"}});
}

}  // namespace hearth
