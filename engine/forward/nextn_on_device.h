// The weights and neurons of a layer that predicts later tokens, in a device's memory.
//
// The constructor allocates and copies; a plan runs it with a MemoryMeter, to count the bytes that loading
// will take. NextnPass owns it; const afterward.
#pragma once

#include "engine/model/nextn_weights.h"
#include "engine/model/weights.h"
#include "engine/neurons/expert_slabs.h"
#include "engine/neurons/neuron_layout.h"
#include "engine/neurons/placement.h"
#include "kernels/compute_device.h"
#include "kernels/memory.h"

namespace hearth {

/// The model's weights as the file stores them, and in the memory of its devices.
struct ModelWeights {
  const Weights& in_file;
  const Weights& placed;
};

struct NextnOnDevice {
  /// spec: NextnWeights::spec. model: the layer uses the model's output and output norm if the file has no
  /// own ones. share: not kNone. Throws std::bad_alloc. REQUIRES: why_not_nextn_experts() is empty if share
  /// is kWhole.
  NextnOnDevice(const ModelSpec& spec, const NextnHead& file, const ModelWeights& model, NextnShare share,
                Memory& memory);

  /// Copies the experts, if the device holds them. REQUIRES: the constructor's memory belongs to `device`.
  void fill(const NextnHead& file, ComputeDevice& device) const;

  Weights weights;
  const float* hidden_norm = nullptr;  // NextnHead::hidden_norm
  Linear join;
  NeuronLayout neurons;
  ExpertSlabs experts;  // empty if the CPU computes the experts
};

/// Returns the reason, as a phrase, why a device cannot hold the layer's experts; empty if it can, or if the
/// layer has none.
std::string why_not_nextn_experts(const NextnWeights& weights);

}  // namespace hearth
