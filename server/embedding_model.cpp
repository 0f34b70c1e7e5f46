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
#include "server/runtime_facts.h"

namespace hearth {
namespace {

LoadOptions load_options(const Options& options) {
  LoadOptions load = host_options(options);
  load.path = options.embedding_model;
  load.n_threads = std::max(1, (options.threads > 0 ? options.threads : default_thread_count()) / 2);
  load.n_slots = kEmbeddingSlots;
  load.n_kv_contexts = 1;
  load.context_tokens = options.embedding_context;
  load.warn = [](const std::string& sentence) { log_warning("embedding model: " + sentence); };
  return load;
}

}  // namespace

std::unique_ptr<EmbeddingModel> EmbeddingModel::load(std::shared_ptr<const ModelFile> file,
                                                     const Options& options, std::vector<std::string> names,
                                                     std::function<void(double)> progress) try {
  auto model = std::make_unique<EmbeddingModel>();
  const int64_t created = std::time(nullptr);
  LoadOptions load = load_options(options);
  load.file = std::move(file);
  load.progress = std::move(progress);
  model->runtime_ = ModelRuntime::load(load);
  const EngineOptions engine = engine_for(*model->runtime_, kEmbeddingSlots, options.queue);
  warm_up(*model->runtime_, {.n_slots = engine.n_slots, .context_tokens = engine.context_tokens});
  model->engine_ = std::make_unique<Engine>(*model->runtime_, engine);
  model->target_ = target_of(*model->runtime_, *model->engine_, std::move(names), created);
  return model;
} catch (const ModelFileError& error) {
  throw StartError(error.what());
} catch (const std::invalid_argument& error) {
  throw StartError(std::string("--embedding-model: ") + error.what());
}

void EmbeddingModel::log_summary() const {
  const ModelSpec& spec = runtime_->facts().spec;
  log_info("embedding model", {{"name", name()},
                               {"architecture", std::string(spec.arch.name)},
                               {"dimensions", spec.d_model},
                               {"pooling", std::string(pooling_name(spec.pooling))},
                               {"backend", runtime_->placed().backend},
                               {"slots", engine_->options().n_slots},
                               {"context", runtime_->facts().context_tokens},
                               {"memory", std::to_string((runtime_->facts().file.total_bytes() +
                                                          reserved_bytes(*runtime_) + 500'000) /
                                                         1'000'000) +
                                              " MB"}});
}

}  // namespace hearth
