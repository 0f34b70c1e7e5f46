// A model run on text that it was not counted on: which neurons were active, and which of them its predictors
// would have proposed, for their own layer and ahead of time.
//
// A dense pass whose every neuron is looked at, so what is found is exact, and no faster than a dense prompt.
// Runs the model on the calling thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "engine/model/sha256.h"
#include "engine/model/weights.h"
#include "engine/model_runtime.h"
#include "profiler/activity/text_feed.h"
#include "profiler/predictors/proposing.h"
#include "profiler/report/hit_rates.h"

namespace hearth {

struct HeldOut {
  int n_texts = 0;
  uint64_t n_tokens = 0;
  ActivityProfile active;  // tokens for which each neuron was
  // Of models with predictors, [n_layers], else empty:
  std::vector<ProposalCounts> predictors;
  std::vector<ProposalCounts> ahead;  // fed with the input of the layer before; nothing of the first layer
};

struct HeldOutSettings {
  const Weights& predictors;           // whose predictors are looked at, if it has any
  float threshold = 0;                 // least logit that proposes a neuron
  const std::set<Sha256>& counted;     // texts to pass over
  uint64_t n_tokens = 0;               // at most
  std::chrono::seconds most_time{30};  // once it is over no text is begun
  int n_threads = 1;
  std::function<void(double fraction)> progress;  // may be empty
};

/// REQUIRES: a model loaded dense on the CPU, whose activation has zeros. Throws as TextFeed.
HeldOut run_held_out(ModelRuntime& model, TextFeed& texts, const HeldOutSettings& settings);

}  // namespace hearth
