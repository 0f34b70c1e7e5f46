// The model of --embedding-model. It embeds texts for /v1/embeddings on its own engine, so that embeddings
// and generated answers do not wait for each other.
//
// Each ServingModel has at most one EmbeddingModel. The model runs on the CPU, with half of the threads,
// because the served model uses the GPU if there is one. If both models compute on the CPU at once, they
// share the processors like two programs.
//
// Built by hearthd's load thread before the served model. Const after that.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "config/options.h"
#include "engine/engine.h"
#include "engine/model_runtime.h"
#include "server/api/embedding_target.h"

namespace hearth {

/// Number of sequences embedded at once. With the default --prefill-chunk, 16 texts of 8 tokens each fill one
/// step.
inline constexpr int kEmbeddingSlots = 16;

class EmbeddingModel {
 public:
  /// names: the model's names in the API, from embedding_model_names(). Throws StartError, std::bad_alloc, or
  /// an exception of `progress`.
  static std::unique_ptr<EmbeddingModel> load(std::shared_ptr<const ModelFile> file, const Options& options,
                                              std::vector<std::string> names,
                                              std::function<void(double)> progress);

  Engine& engine() const { return *engine_; }
  const ModelRuntime& runtime() const { return *runtime_; }
  /// The description of this model for the API. Copies of it refer to this object and must not outlive it.
  const EmbeddingTarget& target() const { return target_; }
  const std::string& name() const { return target_.names.front(); }
  void log_summary() const;

 private:
  // Members are destroyed in reverse order, because the engine uses the runtime.
  std::unique_ptr<ModelRuntime> runtime_;
  std::unique_ptr<Engine> engine_;
  EmbeddingTarget target_;
};

}  // namespace hearth
