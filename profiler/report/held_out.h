// Runs a model on text that its neurons were not counted on, to find which neurons are active, which of them
// its predictors would have proposed, and how often the needed neurons are the ones chosen for the GPU.
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
#include "engine/model/weights.h"
#include "engine/model_runtime.h"
#include "kernels/base/sha256.h"
#include "profiler/activity/text_feed.h"
#include "profiler/predictors/trained_predictor.h"

namespace hearth {

struct HeldOut {
  int n_texts = 0;
  uint64_t n_tokens = 0;
  ActivityProfile active;  // the number of tokens for which each neuron was active
  // Both are [n_layers] for models with predictors, else empty.
  std::vector<ProposalCounts> predictors;
  std::vector<ProposalCounts> ahead;  // with the previous layer's input; nothing for the first layer
};

struct HeldOutSettings {
  const Weights& predictors;           // weights with the predictors to count, if they have any
  float threshold = 0;                 // the least logit that proposes a neuron
  const std::set<Sha256>& counted;     // texts to skip
  uint64_t n_tokens = 0;               // most tokens to run
  std::chrono::seconds most_time{30};  // after this time no new text is begun
  int n_threads = 1;
  std::function<void(double fraction)> progress;  // may be empty
};

/// Runs the texts. REQUIRES: a model loaded dense on the CPU, whose activation has zeros. Throws like
/// TextFeed.
HeldOut run_held_out(ModelRuntime& model, TextFeed& texts, const HeldOutSettings& settings);

/// The hit rate of a placement: the share of neurons needed by held-out text that are in the placement's set.
/// All sets have the same bytes.
struct ReportHitRate {
  std::string placement;  // "as planned", "at random"
  double hit_rate = 0;
};

struct ReportHits {
  double share = 0;      // the share of all neurons that is chosen
  bool planned = false;  // the share is that of the plan's hot neurons, and the first rate is the plan's
  std::vector<ReportHitRate> rates;
  // Hit rates for shares spread evenly from 0 to 1. by_activity: the chosen neurons are the most active ones
  // of the whole model; even: the most active ones of each layer, equally many in each.
  std::vector<double> by_activity, even;
};

/// The share of all activations in `needed` that belong to the first n[layer] neurons of order[layer]; 0 if
/// nothing was needed.
double hit_rate(const ActivityProfile& needed, const std::vector<std::vector<int32_t>>& order,
                const std::vector<int64_t>& n);

/// Whether each layer may have hot neurons: only layers whose attention is on the GPU.
using LayerMask = std::vector<bool>;

/// For each of these layers, the number of its neurons that are among the n most active of all these layers.
/// Between equally active neurons, the earlier layer goes first.
std::vector<int64_t> most_active(const ActivityProfile& counted, int64_t n, const LayerMask& layers);

/// Divides n neurons evenly: each of these layers gets as many as the others, or one more.
std::vector<int64_t> even(int64_t n, const LayerMask& layers);

/// The number of each layer's neurons that a plan has on the GPU, always or nearly always, and the layers
/// that it places there.
struct PlannedHot {
  std::vector<int64_t> n;
  LayerMask layers;
};

/// Compares the plan's placement with three others that have as many neurons in the layers that the plan has
/// on the GPU (so that attention takes the same bytes): the most active neurons, the most active of each
/// layer with the same number in each, and random ones. planned: if nullopt, compares placements of a quarter
/// of all neurons, in all layers, without a plan. REQUIRES: all neurons of the model have the same bytes; the
/// shapes agree; there are planned neurons.
ReportHits compare_placements(const ActivityProfile& counted, const ActivityProfile& needed,
                              const std::optional<PlannedHot>& planned);

}  // namespace hearth
