// See the header.
#include "engine/model/head_weights.h"

namespace hearth {

std::vector<HeadStage> bind_head(Binder& bind, const ModelSpec& spec) {
  const int64_t d = spec.d_model;
  std::vector<HeadStage> stages;
  if (spec.d_head > 0) {
    stages.push_back({.linear = bind.linear("dense_2", spec.d_head, d)});
    stages.push_back({.linear = bind.linear("dense_3", d, spec.d_head)});
  }
  if (spec.n_scores == 0) return stages;
  if (bind.has("cls.weight")) {
    stages.push_back({.linear = bind.linear("cls", d, d), .activation = *spec.arch.rank_head});
    stages.back().norm = bind.optional_vector("cls.norm.weight", d);
  }
  stages.push_back({.linear = bind.linear("cls.output", spec.n_scores, d)});
  return stages;
}

}  // namespace hearth
