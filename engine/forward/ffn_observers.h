// Holds the observers of a forward pass's neurons and notifies them. The observers are the activity counter,
// the recorder of experts, the live view, a ValueObserver and a NeuronObserver.
//
// FfnPass owns it, and the parts of FfnPass report to it layer by layer. NeuronObservation attaches the
// observers. Engine thread. Nothing is allocated in a step.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "engine/activity/activity_counter.h"
#include "engine/activity/expert_recorder.h"
#include "engine/activity/live_activity.h"
#include "engine/model/model_spec.h"
#include "kernels/compute_device.h"
#include "kernels/experts.h"
#include "kernels/neurons.h"

namespace hearth {

/// Receives the neurons of a dense pass on the CPU while the pass runs, layer by layer. Used to train and
/// evaluate predictors; see NeuronObservation::observe_neurons. Engine thread.
class NeuronObserver {
 public:
  virtual ~NeuronObserver() = default;

  /// Receives the input of the layer's predictor, x [n_tokens, d_model]. Called before values() of that
  /// layer.
  virtual void input(int layer, const float* x, int n_tokens) = 0;

  /// Receives the values of all neurons of the layer, act(gate) * up, [n_tokens, d_ff] in the file's order,
  /// before the multiplication by the down projection. Setting a value to zero skips the neuron for that
  /// token.
  virtual void values(int layer, float* values, int n_tokens) = 0;
};

/// Called in calibrated mode for each layer, before any neuron is skipped. The arrays contain all neurons, in
/// the layout's order, and are in host memory: values [n_tokens, d_ff] and down_sizes [d_ff], the Euclidean
/// norms of the down columns.
using ValueObserver =
    std::function<void(int layer, const float* values, const float* down_sizes, int n_tokens)>;

/// Called with the experts that a layer's tokens chose; `choice` is in host memory.
using ChoiceObserver = std::function<void(int layer, const ExpertChoice& choice)>;

class FfnObservers {
 public:
  /// There are no observers at first. spec must outlive this object.
  explicit FfnObservers(const ModelSpec& spec);

  // -- setting the observers; call these between steps --

  /// From now on, counts single neurons or, in a mixture, the experts that tokens choose; null stops
  /// counting. In dense modes, neurons are counted only if there is one down row per neuron. The counter must
  /// outlive this object, or count_activity(null) must be called before. REQUIRES: the device, if any, has
  /// reserved memory for the active neurons of steps of up to the counter's max_tokens
  /// (ComputeDevice::reserve_found).
  void count_activity(ActivityCounter* counter) { counter_ = counter; }
  /// Records the experts that tokens choose from now on; null stops recording. The recorder must outlive this
  /// object, or record_experts(null) must be called before.
  void record_experts(ExpertRecorder* recorder) { recorder_ = recorder; }
  /// Shows sampled steps from now on, under the same conditions as count_activity(); null shows none.
  /// REQUIRES: the device, if any, has reserved memory for the active neurons of steps of up to
  /// Shape::max_tokens.
  void show_activity(LiveActivity* live) { live_ = live; }
  /// Sets the ChoiceObserver, or none if it is empty. If no other observer needs a step's choices
  /// (wants_choices()), it gets only those that are in host memory anyway.
  void observe_choices(ChoiceObserver observer) { choice_observer_ = std::move(observer); }
  /// Sets the NeuronObserver, or none if it is null. It must outlive this object or be replaced by null.
  /// REQUIRES: the pass is dense and has no device.
  void observe_neurons(NeuronObserver* observer) { neuron_observer_ = observer; }
  bool observes_neurons() const { return neuron_observer_ != nullptr; }
  /// Sets the ValueObserver, or none if it is empty. Only FfnPass::observe_values() calls this, because it
  /// also prepares the pass.
  void observe_values(ValueObserver observer) { value_observer_ = std::move(observer); }
  bool observes_values() const { return value_observer_ != nullptr; }

  // -- single neurons and experts of a step --

  void begin_step() { found_later_.clear(); }
  /// Reports the neurons that `device` found; call it once the device has finished the step. device: the
  /// device that computed the layers reported as on_device; may be null if no layer was.
  void end_step(ComputeDevice* device);

  /// The lists to which the current step's layers write their active neurons (NeuronCounts::found). Null if
  /// the step reports no neurons.
  const ActiveNeurons* found() const;
  /// Whether the current step reports single neurons.
  bool counts_step() const { return found() != nullptr; }
  /// Reports the neurons that the layer has written to found(). on_device: whether a device finds them, and
  /// delivers them only at the end of the step. The calls for the device's layers must be in the order in
  /// which the device computes the layers. REQUIRES: counts_step().
  void report_found(int layer, bool on_device);
  /// Whether an observer uses the experts that the current step's tokens choose, so that the pass must call
  /// report_choice().
  bool wants_choices() const { return shows_choices() || counts_choices() || records_choices(); }
  /// Reports the experts that the layer's tokens chose; `choice` is in host memory.
  void report_choice(int layer, const ExpertChoice& choice);

  // -- whole layers, for NeuronObserver and ValueObserver; without an observer these do nothing --

  /// Report the residual stream x [n_tokens, d_model] before a layer's attention, and before its FFN.
  /// NeuronObserver receives only the x that the architecture's predictors read.
  void before_attention(int layer, const float* x, int n_tokens);
  void before_ffn(int layer, const float* x, int n_tokens);
  /// Reports the values of all neurons of a layer, [n_tokens, d_ff] in host memory. NeuronObserver may set
  /// some values to zero.
  void report_neurons(int layer, float* values, int n_tokens);
  /// Reports the values of all neurons of a layer to the ValueObserver. REQUIRES: observes_values().
  void report_values(int layer, const float* values, const float* down_sizes, int n_tokens);

 private:
  void tell_found(int layer);
  bool shows_choices() const;
  bool counts_choices() const;
  bool records_choices() const;

  const ModelSpec& spec_;
  ActivityCounter* counter_ = nullptr;
  ExpertRecorder* recorder_ = nullptr;
  LiveActivity* live_ = nullptr;
  NeuronObserver* neuron_observer_ = nullptr;
  ChoiceObserver choice_observer_;
  ValueObserver value_observer_;
  // Layers with active neurons that the device will report at the end of the step.
  std::vector<int> found_later_;
};

}  // namespace hearth
