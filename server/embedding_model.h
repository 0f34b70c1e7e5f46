// The embedding model that --embedding-model names. It embeds texts for /v1/embeddings with its own engine,
// so that long lists of texts and running answers do not wait for each other.
//
// Owned by ServingModel. It runs on the CPU with half of the threads, because the served model uses the GPU
// if there is one. When both compute at once, they share the processors like two programs.
//
// Built by hearthd's load thread, before the served model; const for everyone after that.
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

/// Number of sequences embedded at once. Sixteen texts of eight tokens each fill one step at the default
/// --prefill-chunk.
inline constexpr int kEmbeddingSlots = 16;

class EmbeddingModel {
 public:
  /// `names`: the model's names in the API, see embedding_model_names(). Throws StartError, std::bad_alloc,
  /// and whatever `progress` throws.
  static std::unique_ptr<EmbeddingModel> load(std::shared_ptr<const ModelFile> file, const Options& options,
                                              std::vector<std::string> names,
                                              std::function<void(double)> progress);

  Engine& engine() const { return *engine_; }
  const ModelRuntime& runtime() const { return *runtime_; }
  /// The part of this model that the API uses. This object must outlive copies of the target.
  const EmbeddingTarget& target() const { return target_; }
  const std::string& name() const { return target_.names.front(); }
  void log_summary() const;

 private:
  // Destroyed in reverse order: the engine uses the runtime.
  std::unique_ptr<ModelRuntime> runtime_;
  std::unique_ptr<Engine> engine_;
  EmbeddingTarget target_;
};

}  // namespace hearth
