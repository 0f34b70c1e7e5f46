// A model run on text that its neurons were not counted on: which neurons were active, which of them its
// predictors would have proposed, and how often the neurons chosen for the GPU were the ones needed.
//
// The run is a dense pass that looks at every neuron, so its results are exact and it is as slow as a dense
// prompt. It runs the model on the calling thread; the rest are pure functions of counts.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/activity/activity_profile.h"
#include "engine/model/sha256.h"
#include "engine/model/weights.h"
#include "engine/model_runtime.h"
#include "profiler/activity/text_feed.h"
#include "profiler/predictors/trained_predictor.h"

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

/// How many of the neurons that held-out text needed a set of neurons of the same bytes had.
struct ReportHitRate {
  std::string placement;  // "as planned", "at random"
  double hit_rate = 0;
};

struct ReportHits {
  double share = 0;      // of all neurons, chosen
  bool planned = false;  // as many as the plan has hot, and the first rate is the plan's
  std::vector<ReportHitRate> rates;
  // Rates of other shares, evenly from none to all: of the most active of all layers, and of as many of each.
  std::vector<double> by_activity, even;
};

/// Of all that `needed` counts, the share whose neuron is among the first n[layer] of order[layer]. 0 where
/// nothing was needed.
double hit_rate(const ActivityProfile& needed, const std::vector<std::vector<int32_t>>& order,
                const std::vector<int64_t>& n);

/// Which layers may have hot neurons: those whose attention the GPU has.
using LayerMask = std::vector<bool>;

/// How many neurons of each of these layers are among the n most active of them all; of equally active ones
/// those of the first layers.
std::vector<int64_t> most_active(const ActivityProfile& counted, int64_t n, const LayerMask& layers);

/// n in all, as many of each of these layers as of the others, or one more.
std::vector<int64_t> even(int64_t n, const LayerMask& layers);

/// Neurons of each layer that a plan has on the GPU, for good or nearly always, and the layers that it has
/// there.
struct PlannedHot {
  std::vector<int64_t> n;
  LayerMask layers;
};

/// Placements of as many neurons as planned, compared: by the plan; and in the layers that the plan has on
/// the GPU, so that attention takes the same bytes: the most active, as many of each layer, at random.
/// planned nullopt: a quarter of all neurons are compared, in all layers, without a plan. All neurons of a
/// model have the same bytes. REQUIRES: shapes that agree; some planned neurons.
ReportHits compare_placements(const ActivityProfile& counted, const ActivityProfile& needed,
                              const std::optional<PlannedHot>& planned);

}  // namespace hearth
