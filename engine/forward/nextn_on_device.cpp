// See the header.
#include "engine/forward/nextn_on_device.h"

#include <numeric>
#include <vector>

#include "kernels/cuda/ops/expert_types.h"

namespace hearth {
namespace {

std::vector<int32_t> experts_of(const MixtureWeights& mixture, NextnShare share) {
  std::vector<int32_t> experts(share == NextnShare::kWhole ? mixture.experts.size() : 0);
  std::iota(experts.begin(), experts.end(), 0);
  return experts;
}

}  // namespace

NextnOnDevice::NextnOnDevice(const ModelSpec& spec, const NextnHead& file, const ModelWeights& model,
                             NextnShare share, Memory& memory) {
  const MixtureWeights& mixture = file.weights.layers.front().mixture;
  weights.token_embedding = file.weights.token_embedding;
  weights.layers = {file.weights.layer_on(memory, spec, 0, /*predictor=*/false)};
  weights.rope_divisors = file.weights.rope_divisors;
  weights.long_rope_divisors = file.weights.long_rope_divisors;
  const bool own_output = file.weights.output.weight.data != model.in_file.output.weight.data;
  const bool own_norm = file.weights.output_norm.scale != model.in_file.output_norm.scale;
  weights.output = own_output ? file.weights.output_on(memory) : model.placed.output;
  weights.output_norm = own_norm ? file.weights.output_norm_on(memory, spec) : model.placed.output_norm;
  hidden_norm = memory.resident(file.hidden_norm.scale, spec.d_model);
  join = {memory.resident(file.join.weight), memory.resident(file.join.bias, file.join.weight.n_rows)};
  neurons.add_whole(NeuronLayout::in_file(spec, file.weights).layer(0), memory);
  const std::vector<int32_t> numbers = experts_of(mixture, share);
  experts = ExpertSlabs(mixture, numbers, static_cast<int>(numbers.size()), memory);
}

void NextnOnDevice::fill(const NextnHead& file, ComputeDevice& device) const {
  if (!experts.experts().empty())
    experts.fill(file.weights.layers.front().mixture.experts, device, [](size_t) {});
}

std::string why_not_nextn_experts(const NextnWeights& weights) {
  const MixtureWeights& mixture = weights.mixture();
  if (mixture.experts.empty()) return {};
  if (weights.spec.mixture.n_experts > cuda::kMostExperts ||
      weights.spec.mixture.n_used > cuda::kMostExpertsUsed)
    return "the GPU chooses among " + std::to_string(cuda::kMostExperts) + " experts at most";
  return why_not_resident(mixture);
}

}  // namespace hearth
