// See the header.
#include "profiler/synthesis/planted_tensors.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "profiler/synthesis/normal_stream.h"
#include "profiler/synthesis/synth_file.h"

namespace hearth {

SynthTensor planted_output(TensorMaker& tensors, const ActivitySpace& space, DType dtype, int64_t n_vocab,
                           int64_t d_model, uint64_t stream) {
  return tensors.stack("output.weight", dtype, 0, n_vocab, d_model, [&](int64_t row, std::span<float> out) {
    if (row <= kSynthEnd) {
      std::ranges::fill(out, 0.0f);
      return;
    }
    NormalStream random(mix_keys(stream, static_cast<uint64_t>(row)));
    random.fill(out, static_cast<float>(1.0 / std::sqrt(static_cast<double>(d_model))));
    space.remove_constant_part(out);
  });
}

std::vector<PlantedDirection> planted_experts(const ModelShape& shape, double skew, uint64_t seed) {
  const double mean = static_cast<double>(shape.n_used) / shape.n_experts;
  return plant_directions(firing_probabilities(shape.n_experts, mean, skew), seed);
}

SynthTensor planted_router(const ActivitySpace& space, std::span<const PlantedDirection> experts,
                           int64_t d_model, double length) {
  const auto width = static_cast<size_t>(d_model);
  SynthTensor tensor{"ffn_gate_inp.weight", DType::kF32, {d_model, static_cast<int64_t>(experts.size())}, {}};
  std::vector<float> rows(experts.size() * width);
  for (size_t e = 0; e < experts.size(); ++e)
    space.gate_row(experts[e].direction, length * experts[e].cosine,
                   std::span(rows).subspan(e * width, width));
  const std::span<const std::byte> bytes = std::as_bytes(std::span(rows));
  tensor.bytes.assign(bytes.begin(), bytes.end());
  return tensor;
}

SynthTensor planted_gates(TensorMaker& tensors, const ActivitySpace& space, std::string name, DType dtype,
                          const ModelShape& shape, double active, uint64_t seed) {
  const std::vector<double> p = firing_probabilities(shape.d_expert, active);
  std::vector<PlantedDirection> all;
  for (int e = 0; e < shape.n_experts; ++e) {
    const std::vector<PlantedDirection> of_expert =
        plant_directions(p, mix_keys(seed, static_cast<uint64_t>(e)));
    all.insert(all.end(), of_expert.begin(), of_expert.end());
  }
  return tensors.stack(std::move(name), dtype, shape.n_experts, shape.d_expert, shape.d_model,
                       [&](int64_t row, std::span<float> out) {
                         const PlantedDirection& neuron = all[static_cast<size_t>(row)];
                         space.gate_row(neuron.direction, neuron.cosine, out);
                       });
}

}  // namespace hearth
