// See the header.
#include "server/models/layer_facts.h"

#include <algorithm>
#include <memory>
#include <variant>

#include "engine/forward/state_memory.h"
#include "engine/model/nextn_weights.h"
#include "engine/residency/memory_limit.h"

namespace hearth {
namespace {

std::string kind_name(RecurrentKind kind) {
  switch (kind) {
    case RecurrentKind::kGatedDelta:
      return "gated delta nets";
    case RecurrentKind::kShortConv:
      return "short convolutions";
    case RecurrentKind::kMamba2:
      return "Mamba-2";
  }
  return {};
}

}  // namespace

std::optional<RecurrentFacts> recurrent_facts(const ModelSpec& spec) {
  const auto n = std::ranges::count_if(spec.layers, [](const LayerSpec& layer) { return layer.recurrent; });
  if (n == 0) return std::nullopt;
  return RecurrentFacts{.kind = kind_name(spec.recurrent.kind),
                        .n_layers = static_cast<int>(n),
                        .n_all_layers = spec.n_layers,
                        .state_bytes = StateMemory::snapshot_bytes(spec)};
}

std::string text_of(const RecurrentFacts& facts) {
  return facts.kind + " in " + std::to_string(facts.n_layers) + " of " + std::to_string(facts.n_all_layers) +
         " layers; a sequence keeps a state of " + bytes_text(facts.state_bytes) +
         ", however long it is, and so does each snapshot";
}

nlohmann::ordered_json json_of(const RecurrentFacts& facts) {
  return {{"kind", facts.kind},
          {"layers", facts.n_layers},
          {"state_bytes", static_cast<int64_t>(facts.state_bytes)}};
}

std::optional<PredictingFacts> predicting_facts(const ModelFile& file, const ModelSpec& spec,
                                                const Weights& weights) {
  PredictingFacts facts;
  for (int i = spec.n_layers; i < spec.n_layers + spec.n_unused_layers; ++i) {
    const std::string prefix = "blk." + std::to_string(i) + ".";
    if (file.find_tensor(prefix + "nextn.eh_proj.weight") == nullptr) continue;
    ++facts.n_layers;
    for (const TensorInfo& tensor : file.tensors())
      facts.bytes += tensor.name.starts_with(prefix) ? static_cast<double>(tensor.bytes) : 0;
  }
  if (facts.n_layers == 0) return std::nullopt;
  const auto bound = bind_nextn(file, spec, weights);
  if (const std::string* why = std::get_if<std::string>(&bound)) facts.why_not = *why;
  if (const auto* layers = std::get_if<0>(&bound); layers != nullptr && *layers)
    facts.n_used = (*layers)->n_heads();
  return facts;
}

std::string text_of(const PredictingFacts& facts) {
  const std::string layers = facts.n_layers == 1
                                 ? "1 layer (nextn) predicts a later token"
                                 : std::to_string(facts.n_layers) + " layers (nextn) predict later tokens";
  const std::string drafting =
      facts.n_used == 1 ? "the first of them" : "the first " + std::to_string(facts.n_used) + " of them";
  const std::string use =
      facts.why_not.empty() ? "drafts come from " + drafting : "not used: " + facts.why_not;
  return layers + ", " + bytes_text(facts.bytes) + "; " + use;
}

nlohmann::ordered_json json_of(const PredictingFacts& facts) {
  nlohmann::ordered_json json = {{"layers", facts.n_layers}, {"bytes", static_cast<int64_t>(facts.bytes)}};
  if (!facts.why_not.empty()) json["why_not_used"] = facts.why_not;
  return json;
}

}  // namespace hearth
