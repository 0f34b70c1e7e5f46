// See the header.
#include "engine/residency/token_bytes.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/quant/coded_columns.h"

namespace hearth {
namespace {

/// The bytes that one token reads from one layer's weights.
struct TokenLayerBytes {
  double whole = 0;    // attention, the router, the predictor
  double experts = 0;  // the token's experts, and the shared expert if it has a gate
  double gates = 0, ups = 0, downs = 0;
};

/// Bytes of a transposed down projection [d_model, neurons] if only a share `active` of the neurons is read.
double turned_bytes(const Matrix& down, double active) {
  const double codes =
      static_cast<double>(column_codes_bytes(down.dtype, down.n_rows)) * static_cast<double>(down.n_cols);
  // The scales of a group of neurons are read if any neuron of the group is read.
  const double group_read = 1.0 - std::pow(1.0 - active, kLargestColumnGroup);
  return active * codes + group_read * static_cast<double>(column_scales_bytes(down));
}

double down_bytes(const LayerWeights& layer, double active) {
  if (layer.down_rows.weight) return active * static_cast<double>(layer.down_rows.weight.bytes());
  return turned_bytes(layer.down.weight, active);
}

double router_bytes(const MixtureWeights& mixture) {
  return static_cast<double>(mixture.router.weight.bytes() + mixture.shared_gate.weight.bytes() +
                             mixture.latent_in.weight.bytes() + mixture.latent_out.weight.bytes());
}

/// Bytes that a token reads from a layer's experts.
double chosen_bytes(const ModelSpec& spec, const MixtureWeights& mixture, Sparsity mode,
                    const NeuronActivity& activity) {
  if (mode != Sparsity::kExact)
    return static_cast<double>(mixture_bytes_per_token(spec, mixture)) - router_bytes(mixture);
  const auto read_bytes = [&](const Expert& expert) {
    const double active = turned_bytes(expert.down, activity.active);
    const auto up = static_cast<double>(expert.up.bytes());
    return active + (expert.gate ? static_cast<double>(expert.gate.bytes()) + activity.passed * up : up);
  };
  double total = 0;
  for (const Expert& expert : mixture.shared) total += read_bytes(expert);
  // All experts of a layer have the same size.
  if (!mixture.experts.empty()) total += spec.mixture.n_used * read_bytes(mixture.experts.front());
  return total;
}

TokenLayerBytes layer_bytes(const ModelSpec& spec, const LayerWeights& layer, Sparsity mode,
                            const NeuronActivity& activity) {
  TokenLayerBytes bytes;
  bytes.whole += static_cast<double>(attention_bytes(layer));
  bytes.whole += router_bytes(layer.mixture);
  bytes.experts = chosen_bytes(spec, layer.mixture, mode, activity);
  if (spec.has_experts()) mode = Sparsity::kDense;  // for the parts outside the experts
  bytes.gates = static_cast<double>((spec.gated ? layer.gate : layer.up).weight.bytes());
  bytes.ups = spec.gated ? static_cast<double>(layer.up.weight.bytes()) : 0.0;
  switch (mode) {
    case Sparsity::kDense:
      // Dense runs that count neurons also skip the down rows of neurons with value zero.
      bytes.downs = layer.down.weight ? static_cast<double>(layer.down.weight.bytes())
                                      : down_bytes(layer, activity.active < 0 ? 1.0 : activity.active);
      break;
    case Sparsity::kPredicted:
      bytes.whole += static_cast<double>(layer.predictor_in.bytes() + layer.predictor_out.bytes());
      bytes.gates *= activity.proposed;
      [[fallthrough]];
    case Sparsity::kExact:
      bytes.ups *= activity.passed;
      [[fallthrough]];
    case Sparsity::kCalibrated:
      bytes.downs = down_bytes(layer, activity.active);
  }
  return bytes;
}

/// Adds the bytes that a token reads from a layer on the device. hot: share of the layer's neurons that are
/// hot. c: share of the active neurons that the device computes. resident: share of the experts that the
/// device holds.
void add_device_layer(const TokenLayerBytes& layer, const LayerPlacement& placement, Sparsity mode,
                      double hot, double c, double resident, TokenBytes& total) {
  total.device_whole += layer.whole;
  const auto split = [&](double bytes, double share) {
    total.device_neurons += bytes * share;
    total.cold_neurons += bytes * (1 - share);
  };
  // Rows that are read for every token are assigned to the memory that holds them. Rows of active neurons are
  // assigned to the processor that computes the neurons.
  if (placement.all_gates) {
    total.device_whole += layer.gates;
  } else {
    split(layer.gates, mode == Sparsity::kPredicted ? c : hot);
  }
  split(layer.experts, resident);
  split(layer.ups, mode == Sparsity::kDense || mode == Sparsity::kCalibrated ? hot : c);
  split(layer.downs, mode == Sparsity::kDense ? hot : c);
}

}  // namespace

TokenBytes token_bytes(const ModelSpec& spec, const Weights& weights, Sparsity mode,
                       const NeuronActivity& activity, std::span<const LayerPlacement> placements) {
  TokenBytes total;
  (placements.empty() ? total.host_whole : total.device_whole) +=
      static_cast<double>(weights.bytes_beside_layers());
  const auto n_device = static_cast<double>(
      std::count_if(placements.begin(), placements.end(), [](const auto& p) { return p.on_device; }));
  for (size_t i = 0; i < weights.layers.size(); ++i) {
    const TokenLayerBytes layer = layer_bytes(spec, weights.layers[i], mode, activity);
    if (placements.empty() || !placements[i].on_device) {
      total.host_whole += layer.whole + layer.experts + layer.gates + layer.ups + layer.downs;
      continue;
    }
    const LayerPlacement& placement = placements[i];
    const double hot = static_cast<double>(placement.hot.size()) / spec.d_ff;
    // The counted share of cold neurons covers all layers, but only the device's layers have cold neurons.
    const double cold = std::min(1.0, activity.cold * static_cast<double>(placements.size()) / n_device);
    const double resident =
        spec.has_experts() ? static_cast<double>(placement.experts.size()) / spec.mixture.n_experts : 0;
    add_device_layer(layer, placement, mode, hot, activity.cold < 0 || hot == 1 ? hot : 1 - cold, resident,
                     total);
  }
  return total;
}

}  // namespace hearth
