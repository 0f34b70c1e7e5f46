// Attaches an observer to a model's neurons for the lifetime of the object.
#pragma once

#include "engine/forward/ffn_observers.h"
#include "engine/model_runtime.h"

namespace hearth {

class Observing {
 public:
  /// Calls ModelRuntime::observe_neurons; both arguments must outlive this object.
  Observing(ModelRuntime& model, NeuronObserver& observer) : model_(model) {
    model_.observation().observe_neurons(&observer);
  }
  ~Observing() { model_.observation().observe_neurons(nullptr); }
  Observing(const Observing&) = delete;
  Observing& operator=(const Observing&) = delete;

 private:
  ModelRuntime& model_;
};

}  // namespace hearth
