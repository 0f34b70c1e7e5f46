// Facts for `hearthd show` about layers that not every model has: recurrent layers, and the layers that
// predict later tokens (multi-token prediction).
//
// Plain values; any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "engine/model/model_file.h"
#include "engine/model/model_spec.h"
#include "engine/model/weights.h"

namespace hearth {

struct RecurrentFacts {
  std::string kind;  // "gated delta nets"
  int n_layers = 0, n_all_layers = 0;
  double state_bytes = 0;  // of one sequence, in all layers
};
/// Returns nullopt if no layer is recurrent.
std::optional<RecurrentFacts> recurrent_facts(const ModelSpec& spec);
std::string text_of(const RecurrentFacts& facts);
nlohmann::ordered_json json_of(const RecurrentFacts& facts);

struct PredictingFacts {
  int n_layers = 0;
  int n_used = 0;       // the first layers, which draft
  double bytes = 0;     // of the tensors of all
  std::string why_not;  // why they are not used; empty if they draft tokens
};
/// Returns nullopt if the file has no such layer. weights: those of the file.
std::optional<PredictingFacts> predicting_facts(const ModelFile& file, const ModelSpec& spec,
                                                const Weights& weights);
std::string text_of(const PredictingFacts& facts);
nlohmann::ordered_json json_of(const PredictingFacts& facts);

}  // namespace hearth
