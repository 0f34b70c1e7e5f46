// Runs a model on held-out text: text that was not used to count active neurons. Finds which neurons are
// active, which neurons the predictors would propose, and how many of the active neurons would be on the GPU.
//
// The run is dense and looks at every neuron. Therefore the results are exact, and the run is as slow as a
// dense prompt. run_held_out() runs the model on the calling thread; all other functions are pure functions
// of counts.
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
  ActivityProfile active;  // for each neuron, the number of tokens for which it was active
  // Both vectors are [n_layers] if the model has predictors, and otherwise empty.
  std::vector<ProposalCounts> predictors;
  std::vector<ProposalCounts>
      ahead;  // predictions from the previous layer's input; unset for the first layer
};

struct HeldOutSettings {
  const Weights& predictors;           // weights whose predictors are tested, if they have any
  float threshold = 0;                 // the least logit that proposes a neuron
  const std::set<Sha256>& counted;     // texts to skip
  uint64_t n_tokens = 0;               // maximum number of tokens to run
  std::chrono::seconds most_time{30};  // no new text begins after this time
  int n_threads = 1;
  std::function<void(double fraction)> progress;  // may be empty
};

/// Runs the texts. REQUIRES: the model was loaded dense on the CPU, and its activation has zeros. Throws like
/// TextFeed.
HeldOut run_held_out(ModelRuntime& model, TextFeed& texts, const HeldOutSettings& settings);

/// The hit rate of a placement: the share of the neurons needed by held-out text that are in the placement's
/// set. The sets of all compared placements have the same number of bytes.
struct ReportHitRate {
  std::string placement;  // "as planned", "at random"
  double hit_rate = 0;
};

struct ReportHits {
  double share = 0;  // the share of all neurons that each set contains
  // If set, `share` is the share of the plan's hot neurons, and rates[0] is the plan's hit rate.
  bool planned = false;
  std::vector<ReportHitRate> rates;
  // Hit rates at shares spread evenly from 0 to 1. by_activity: the set contains the most active neurons of
  // the whole model. even: the set contains the most active neurons of each layer, the same number from each.
  std::vector<double> by_activity, even;
};

/// Returns the share of all activations in `needed` that are due to the first n[layer] neurons of
/// order[layer]; 0 if no neuron was needed.
double hit_rate(const ActivityProfile& needed, const std::vector<std::vector<int32_t>>& order,
                const std::vector<int64_t>& n);

/// A flag for each layer: true if the layer may have hot neurons, because its attention is on the GPU.
using LayerMask = std::vector<bool>;

/// Finds the n most active neurons of the layers whose flag in `layers` is true. Returns how many of these
/// neurons each layer has. If neurons are equally active, the lower layer takes precedence.
std::vector<int64_t> most_active(const ActivityProfile& counted, int64_t n, const LayerMask& layers);

/// Divides n neurons evenly among the layers whose flag in `layers` is true, so that the numbers of any
/// two of these layers differ by at most 1. Returns the number of neurons of each layer.
std::vector<int64_t> even(int64_t n, const LayerMask& layers);

/// The neurons that a plan keeps on the GPU. n [n_layers]: the number of each layer's neurons that are on the
/// GPU always or nearly always. layers: the layers that the plan places on the GPU.
struct PlannedHot {
  std::vector<int64_t> n;
  LayerMask layers;
};

/// Compares the plan's placement with three other placements: the most active neurons, the most active
/// neurons of each layer with the same number from each layer, and random neurons. Each placement has as many
/// neurons as the plan, and only in the layers that the plan has on the GPU, so that attention takes as many
/// bytes as in the plan. planned: if nullopt, there is no plan, and the three placements contain a quarter of
/// all neurons of all layers. REQUIRES: all neurons of the model have the same size; the shapes agree;
/// planned, if given, contains neurons.
ReportHits compare_placements(const ActivityProfile& counted, const ActivityProfile& needed,
                              const std::optional<PlannedHot>& planned);

}  // namespace hearth
