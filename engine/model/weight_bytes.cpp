// The sizes of weights. See weights.h.
#include "engine/model/weights.h"

namespace hearth {

size_t expert_bytes(const Expert& expert) {
  return expert.gate.bytes() + expert.up.bytes() + expert.down.bytes();
}

size_t experts_bytes(const MixtureWeights& mixture) {
  size_t total = 0;
  for (const Expert& expert : mixture.experts) total += expert_bytes(expert);
  return total;
}

size_t mixture_bytes_per_token(const ModelSpec& spec, const MixtureWeights& mixture) {
  size_t total = mixture.router.weight.bytes() + mixture.shared_gate.weight.bytes() +
                 mixture.latent_in.weight.bytes() + mixture.latent_out.weight.bytes();
  for (const Expert& expert : mixture.shared) total += expert_bytes(expert);
  // All experts of a layer have the same size.
  if (!mixture.experts.empty()) {
    total += static_cast<size_t>(spec.mixture.n_used) * expert_bytes(mixture.experts.front());
  }
  return total;
}

std::array<Matrix, 30> attention_matrices(const LayerWeights& layer) {
  const LatentWeights& latent = layer.latent;
  const DeltaWeights& delta = layer.delta;
  const ShortConvWeights& conv = layer.short_conv;
  Matrix values = latent.values;
  // Older files store keys and values in one matrix; count only the value rows.
  if (latent.first_value > 0) {
    values.n_rows = values.n_rows / latent.rows_apart * (latent.rows_apart - latent.first_value);
  }
  return {layer.q.weight,
          layer.k.weight,
          layer.v.weight,
          layer.attention_gate.weight,
          layer.attention_out.weight,
          latent.q_a.weight,
          latent.kv_a.weight,
          latent.keys,
          values,
          delta.qkv.weight,
          delta.z.weight,
          delta.beta.weight,
          delta.alpha.weight,
          delta.out.weight,
          delta.q.weight,
          delta.k.weight,
          delta.v.weight,
          delta.short_z.weight,
          delta.short_alpha.weight,
          conv.input_gate.weight,
          conv.output_gate.weight,
          conv.input.weight,
          conv.out.weight,
          layer.embedding_gate.weight,
          layer.embedding_projection.weight,
          layer.streams.router.weight,
          layer.streams.predict.weight,
          layer.streams.correct.weight,
          layer.laurel.left.weight,
          layer.laurel.right.weight};
}

size_t attention_bytes(const LayerWeights& layer) {
  size_t total = 0;
  for (const Matrix& matrix : attention_matrices(layer)) total += matrix.bytes();
  return total;
}

size_t Weights::bytes_beside_layers() const {
  size_t total = output.weight.bytes() + layer_projection.linear.weight.bytes();
  for (const std::vector<Linear>* of_streams : {&stream_matrices.starts, &stream_matrices.ends}) {
    for (const Linear& one : *of_streams) total += one.weight.bytes();
  }
  return total;
}

size_t Weights::bytes_per_token(const ModelSpec& spec) const {
  size_t total = bytes_beside_layers();
  for (const LayerWeights& layer : layers) {
    total += attention_bytes(layer) + mixture_bytes_per_token(spec, layer.mixture);
    for (const Linear* linear : {&layer.gate, &layer.up, &layer.down, &layer.down_rows}) {
      total += linear->weight.bytes();
    }
  }
  return total;
}

}  // namespace hearth
