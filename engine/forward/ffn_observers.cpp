// See the header.
#include "engine/forward/ffn_observers.h"

namespace hearth {

FfnObservers::FfnObservers(const ModelSpec& spec) : spec_(spec) {
  found_later_.reserve(static_cast<size_t>(spec.n_layers));
}

const ActiveNeurons* FfnObservers::found() const {
  if (counter_ != nullptr && !counter_->counts_experts() && counter_->found() != nullptr)
    return counter_->found();
  return live_ != nullptr ? live_->found() : nullptr;
}

void FfnObservers::report_found(int layer, bool on_device) {
  if (on_device) {
    found_later_.push_back(layer);
  } else {
    tell_found(layer);
  }
}

/// Passes the active neurons in found() to the activity counter and to the live view.
void FfnObservers::tell_found(int layer) {
  if (counter_ != nullptr && counter_->found() != nullptr) counter_->add(layer);
  if (live_ != nullptr && live_->found() != nullptr) live_->add(layer, *found());
}

void FfnObservers::end_step(ComputeDevice* device) {
  int call = 0;
  for (const int layer : found_later_) {
    device->found(call++, *found());
    tell_found(layer);
  }
}

bool FfnObservers::shows_choices() const {
  return live_ != nullptr && live_->shows_experts() && live_->samples_step();
}

bool FfnObservers::counts_choices() const {
  return counter_ != nullptr && counter_->counts_experts() && counter_->found() != nullptr;
}

bool FfnObservers::records_choices() const { return recorder_ != nullptr && recorder_->records_step(); }

void FfnObservers::report_choice(int layer, const ExpertChoice& choice) {
  if (choice_observer_) choice_observer_(layer, choice);
  if (shows_choices()) live_->add(layer, choice);
  if (records_choices()) recorder_->add(layer, choice);
  if (counts_choices()) counter_->add(layer, choice);
}

void FfnObservers::before_attention(int layer, const float* x, int n_tokens) {
  if (neuron_observer_ == nullptr || spec_.arch.predictor_input != PredictorInput::kLayerInput) return;
  neuron_observer_->input(layer, x, n_tokens);
}

void FfnObservers::before_ffn(int layer, const float* x, int n_tokens) {
  if (neuron_observer_ == nullptr || spec_.arch.predictor_input != PredictorInput::kResidual) return;
  neuron_observer_->input(layer, x, n_tokens);
}

void FfnObservers::report_neurons(int layer, float* values, int n_tokens) {
  if (neuron_observer_ != nullptr) neuron_observer_->values(layer, values, n_tokens);
}

void FfnObservers::report_values(int layer, const float* values, const float* down_sizes, int n_tokens) {
  value_observer_(layer, values, down_sizes, n_tokens);
}

}  // namespace hearth
