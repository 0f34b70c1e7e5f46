// See the header.
#include "engine/neuron_observation.h"

#include <algorithm>
#include <cassert>
#include <new>
#include <stdexcept>
#include <utility>

#include "engine/neurons/down_sizes.h"
#include "engine/residency/expert_exchanger.h"
#include "engine/residency/plan.h"
#include "engine/residency/prefetcher.h"
#include "engine/residency/sparsity_choice.h"

namespace hearth {
namespace {

// Maximum bytes of page-locked memory for the active neurons that a device reports in a step.
constexpr double kFoundBytes = 128 << 20;

}  // namespace

NeuronActivity NeuronObservation::activity() const { return activity_of(run_.ffn->counts(), spec_); }
void NeuronObservation::reset_activity() { run_.ffn->reset_counts(); }

int NeuronObservation::max_counted_tokens() const {
  if (run_.device == nullptr || spec_.has_experts()) return max_tokens_;
  const double per_token = sizeof(float) * static_cast<double>(spec_.d_ff) * spec_.n_layers;
  return std::clamp(static_cast<int>(std::min(kFoundBytes / per_token, 1e6)), 1, max_tokens_);
}

void NeuronObservation::count_activity(const CountOptions& options) {
  if (!why_not_counted().empty()) throw std::invalid_argument(why_not_counted());
  stop_counting();
  take_activity();
  options_ = options;
  start_counting();
}

void NeuronObservation::end_counting() {
  stop_counting();
  take_activity();
}

void NeuronObservation::pause_activity(bool paused) { counter_->pause(paused); }

ActivityCounts NeuronObservation::take_activity() {
  const MutexLock lock(mutex_);
  keep();
  return std::exchange(kept_, {});
}

void NeuronObservation::record_experts(int max_tokens) {
  std::unique_ptr<ExpertRecorder> recorder;
  if (max_tokens > 0) {
    recorder = std::make_unique<ExpertRecorder>(ExpertRecorder::Shape{
        .layers = traced_layers(spec_, weights_), .n_used = spec_.mixture.n_used, .max_tokens = max_tokens});
  }
  if (run_.ffn != nullptr) run_.ffn->observers().record_experts(recorder.get());
  recorder_ = std::move(recorder);
}

ExpertTraceWriter NeuronObservation::trace_writer(const ModelIdentity& model, uint64_t max_tokens) const {
  return {model, spec_.mixture.n_used, traced_layers(spec_, weights_), max_tokens};
}

std::vector<float> NeuronObservation::down_sizes() const {
  if (spec_.has_experts()) return {};
  return hearth::down_sizes(weights_, spec_.d_model, spec_.d_ff, n_threads_);
}

void NeuronObservation::set_thresholds(std::span<const float> thresholds) {
  run_.ffn->set_thresholds(thresholds);
}
void NeuronObservation::observe_values(ValueObserver observer) {
  run_.ffn->observe_values(std::move(observer));
}
void NeuronObservation::observe_neurons(NeuronObserver* observer) {
  assert(run_.mode == Sparsity::kDense && run_.device == nullptr);
  run_.ffn->observers().observe_neurons(observer);
}

LiveActivity& NeuronObservation::show_live() {
  const bool experts = spec_.has_experts();
  live_ = std::make_unique<LiveActivity>(
      LiveActivity::Shape{.n_layers = spec_.n_layers,
                          .n_units = experts ? spec_.mixture.n_experts : spec_.d_ff,
                          .experts = experts,
                          .max_tokens = std::min(n_slots_, max_counted_tokens())});
  attach_live();
  return *live_;
}

/// Returns one sentence with the reason why the live view can show no activity; empty if it can show
/// activity.
std::string NeuronObservation::why_not_shown() const {
  if (spec_.has_experts()) return {};
  if (!spec_.activation.has_zeros() && run_.mode != Sparsity::kCalibrated) {
    return "This model's activation has no zeros: every neuron fires for every token, so there is nothing "
           "sparse to show.";
  }
  if (!run_.why_not_counted.empty())
    return "A dense run computes every neuron for every token, so there is nothing sparse to show.";
  return {};
}

/// Makes live_ show the model as it is placed now.
void NeuronObservation::attach_live() {
  std::string why = why_not_shown();
  try {
    if (why.empty()) reserve_found(std::min(n_slots_, max_counted_tokens()));
  } catch (const std::bad_alloc&) {
    why =
        "The system grants no page-locked memory for the neurons that the GPU finds, so they cannot be "
        "shown.";
  }
  LiveActivity::CachedNeurons cached_neurons;
  if (run_.prefetcher != nullptr) {
    cached_neurons = [prefetcher = run_.prefetcher](int layer, std::span<uint64_t> bits) {
      return prefetcher->cached(layer, bits);
    };
  } else if (run_.exchanger != nullptr) {
    cached_neurons = [exchanger = run_.exchanger](int layer, std::span<uint64_t> bits) {
      return exchanger->resident(layer, bits);
    };
  }
  live_->attach({.placements = run_.plan == nullptr ? std::span<const LayerPlacement>() : run_.plan->layers,
                 .cached_neurons = cached_neurons,
                 .why_nothing = why,
                 .memory = run_.memory});
  run_.ffn->observers().show_activity(why.empty() ? live_.get() : nullptr);
}

/// Reserves memory in which the device reports active neurons, for steps of up to max_tokens tokens. Throws
/// std::bad_alloc.
void NeuronObservation::reserve_found(int max_tokens) {
  if (run_.device == nullptr || spec_.has_experts() || max_tokens <= n_found_tokens_) return;
  n_found_tokens_ = 0;
  run_.device->reserve_found(spec_.n_layers, max_tokens, spec_.d_ff);
  n_found_tokens_ = max_tokens;
}

std::string NeuronObservation::attach(Run run) {
  run_ = std::move(run);
  n_found_tokens_ = 0;
  run_.ffn->observers().record_experts(recorder_.get());
  if (live_) attach_live();
  if (!std::exchange(interrupted_, false) || !why_not_counted().empty()) return {};
  try {
    start_counting();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return {};
}

void NeuronObservation::detach() {
  interrupted_ = counter_ != nullptr;
  stop_counting();
  if (live_) live_->detach();
  run_ = {};
}

void NeuronObservation::start_counting() {
  // A step that only decodes has one token per slot.
  const int max_tokens = std::min(options_.decode_only ? n_slots_ : max_tokens_, max_counted_tokens());
  const bool experts = spec_.has_experts();  // the CPU chooses experts and reports them
  try {
    reserve_found(max_tokens);
  } catch (const std::bad_alloc&) {
    throw std::invalid_argument(
        "The system grants no page-locked memory to count neurons in (it may be limited: ulimit -l).");
  }
  const ActivityCounter::Shape shape{.n_layers = spec_.n_layers,
                                     .d_ff = experts ? spec_.mixture.n_experts : spec_.d_ff,
                                     .experts = experts,
                                     .n_slots = n_slots_,
                                     .max_tokens = max_tokens};
  {
    const MutexLock lock(mutex_);
    counter_ = std::make_unique<ActivityCounter>(shape, options_);
  }
  run_.ffn->observers().count_activity(counter_.get());
}

void NeuronObservation::stop_counting() {
  if (run_.ffn != nullptr) run_.ffn->observers().count_activity(nullptr);
  const MutexLock lock(mutex_);
  keep();
  counter_.reset();
}

void NeuronObservation::keep() {
  if (!counter_) return;
  ActivityCounts counts = counter_->take();
  kept_.add(counts.of_experts() ? counts : counts.renumbered(*run_.order));
}

}  // namespace hearth
