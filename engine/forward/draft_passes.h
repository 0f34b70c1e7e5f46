// The passes beside the model's own that guess later tokens: of its layers for this (NextnPass), or of an
// assistant (AssistantPass). A model has one of them, or none.
//
// ModelRuntime owns it; engine thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "engine/forward/assistant_pass.h"
#include "engine/forward/nextn_pass.h"

namespace hearth {

struct DraftPasses {
  std::optional<NextnPass> nextn;          // nullopt: no layer of the model drafts
  std::optional<AssistantPass> assistant;  // nullopt: no assistant drafts

  void clear() {
    assistant.reset();
    nextn.reset();
  }
  bool predicts() const { return nextn || assistant; }
  /// See StepLimits::most_predicted.
  int most_predicted() const { return nextn ? nextn->most_predicted() : std::numeric_limits<int>::max(); }
  size_t kv_bytes() const { return nextn ? nextn->kv_bytes() : 0; }
  size_t block_bytes() const { return nextn ? nextn->block_bytes() : 0; }
  void copy_out(int32_t block, std::span<std::byte> out) const {
    if (nextn) nextn->copy_out(block, out);
  }
  void copy_in(int32_t block, std::span<const std::byte> in) const {
    if (nextn) nextn->copy_in(block, in);
  }

  /// Call after each step of the model's pass.
  void after_step(const Batch& batch, ForwardPass& pass) {
    if (nextn) nextn->after_step(batch, pass.hidden_rows(batch.n_tokens()));
    if (assistant && !batch.logit_rows.empty())
      assistant->after_step(batch, pass.hidden_rows(batch.n_tokens()).host);
  }
  /// See ForwardModel::predict(). REQUIRES: predicts().
  std::span<const float> predict(const Batch& batch, bool first) {
    return nextn ? nextn->predict(batch, first) : assistant->predict(batch, first);
  }
};

}  // namespace hearth
