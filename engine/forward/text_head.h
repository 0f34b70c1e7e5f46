// A model's head: computes a text's result from its pooled hidden state.
//
// The head of a reranker (transformers' ...ForSequenceClassification) computes scores of a pair of texts: a
// dense layer with an activation, perhaps a norm, then the scores. EmbeddingGemma has two dense layers
// without an activation, which give the embedding. ModelRuntime owns it, and the engine thread calls it
// between steps. It runs on the CPU.
#pragma once

#include <span>
#include <vector>

#include "engine/model/weights.h"
#include "kernels/backend.h"

namespace hearth {

class TextHead {
 public:
  /// The references must outlive the head. REQUIRES: there is at least one stage.
  TextHead(Backend& cpu, const std::vector<HeadStage>& stages, float norm_eps);

  /// pooled: [d_model]. Returns the last stage's output, valid until the next call. REQUIRES: no step runs;
  /// the backend has reserved memory for the stages' columns.
  std::span<const float> apply(std::span<const float> pooled);

 private:
  Backend& cpu_;
  const std::vector<HeadStage>& stages_;
  float norm_eps_;
  Buffer from_, to_;  // [widest input or output of a stage]
};

}  // namespace hearth
