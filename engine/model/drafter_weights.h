// The weights with which a model drafts, besides its own: of its layers for this, or of an assistant.
//
// Built at load, and in plans of memory; const afterward.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "engine/model/assistant_weights.h"
#include "engine/model/model_file.h"
#include "engine/model/nextn_weights.h"

namespace hearth {

struct DrafterWeights {
  std::unique_ptr<const NextnWeights> nextn;  // null: no layer of the model drafts
  std::string why_no_nextn;  // the reason why the layer that the file has does not; empty if there is none
  std::shared_ptr<const ModelFile> assistant_file;    // null: there is no assistant
  std::unique_ptr<const AssistantWeights> assistant;  // null: there is none
};

/// file, spec, weights: the model's, which must outlive the result. nextn: whether the model's own layers
/// draft, if it has some. assistant: may be null. Throws like bind_assistant().
inline DrafterWeights bind_drafters(const ModelFile& file, const ModelSpec& spec, const Weights& weights,
                                    bool nextn, std::shared_ptr<const ModelFile> assistant) {
  DrafterWeights drafters;
  if (nextn) {
    auto bound = bind_nextn(file, spec, weights);
    if (auto* const layers = std::get_if<0>(&bound)) drafters.nextn = std::move(*layers);
    if (const auto* const why = std::get_if<1>(&bound)) drafters.why_no_nextn = *why;
  }
  drafters.assistant_file = std::move(assistant);
  if (drafters.assistant_file) drafters.assistant = bind_assistant(*drafters.assistant_file, spec, weights);
  return drafters;
}

}  // namespace hearth
