// See the header.
#include "profiler/synthesis/synth_hybrid.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "profiler/synthesis/layer_tensors.h"
#include "profiler/synthesis/normal_stream.h"
#include "profiler/synthesis/planted_tensors.h"
#include "profiler/synthesis/synth_activity.h"

namespace hearth {
namespace {

class HybridMaker {
 public:
  HybridMaker(const SynthOptions& options, const std::function<void(double)>& progress)
      : options_(options),
        shape_(options.shape),
        tensors_(options.n_threads, hybrid_sizes(options).made_elements, progress),
        space_(shape_.d_model, key(kSpace)) {}

  SynthModel make() {
    SynthModel model;
    model.before.push_back(embedding());
    for (const LayerTensor& one : tensors_before(shape_)) model.before.push_back(tensor(one, key(kOutside)));
    const std::vector<LayerKind> kinds = layer_kinds(shape_);
    for (size_t i = 0; i < kinds.size(); ++i) {
      model.layers.emplace_back();
      for (const LayerTensor& one : layer_tensors(shape_, kinds[i], options_.active))
        model.layers.back().push_back(tensor(one, mix_keys(key(kLayers), i)));
    }
    for (int i = 0; i < shape_.n_layers; ++i) {
      const auto found = std::ranges::find(kinds, layer_kind(shape_, i));
      model.order.push_back(static_cast<size_t>(found - kinds.begin()));
    }
    for (const LayerTensor& one : tensors_after(shape_)) model.after.push_back(tensor(one, key(kOutside)));
    if (!shape_.tied) {
      model.after.push_back(
          planted_output(tensors_, space_, options_.dtype, shape_.n_vocab, shape_.d_model, key(kOutput)));
    }
    return model;
  }

 private:
  // Streams of random numbers. For a layer, the stream's key is mixed with the number of its kind.
  enum Stream : uint64_t { kSpace, kEmbedding, kOutput, kLayers, kOutside };

  uint64_t key(uint64_t stream) const { return mix_keys(options_.seed, stream); }

  SynthTensor embedding() {
    // Gemma multiplies embeddings by the square root of d_model.
    const bool is_gemma = shape_.architecture == "gemma4";
    const float scale = is_gemma ? 1.0f / std::sqrt(static_cast<float>(shape_.d_model)) : 1.0f;
    return tensors_.stack("token_embd.weight", options_.dtype, 0, shape_.n_vocab, shape_.d_model,
                          [&](int64_t row, std::span<float> out) {
                            NormalStream random(mix_keys(key(kEmbedding), static_cast<uint64_t>(row)));
                            space_.input_row(random, {}, out);
                            for (float& value : out) value *= scale;
                          });
  }

  /// Makes a float tensor whose element i is value(i).
  template <class Value>
  static SynthTensor floats(const LayerTensor& one, const Value& value) {
    std::vector<float> values(static_cast<size_t>(one.n_elements()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(value(static_cast<double>(i)));
    const std::span<const std::byte> bytes = std::as_bytes(std::span(values));
    return {one.name, DType::kF32, one.shape, {bytes.begin(), bytes.end()}};
  }

  SynthTensor random(const LayerTensor& one, DType dtype, uint64_t stream) {
    const int64_t count = one.shape.size() == 3 ? one.shape[2] : 0;
    return tensors_.random_stack(one.name, dtype, count, one.shape[1], one.shape[0], stream, one.value);
  }

  /// stream: the key of the layer's random numbers.
  SynthTensor tensor(const LayerTensor& one, uint64_t stream) {
    for (const char letter : one.name) stream = mix_keys(stream, static_cast<uint64_t>(letter));
    const auto n = static_cast<double>(one.n_elements());
    switch (one.fill) {
      case TensorFill::kRandom:
        return random(one, options_.dtype, stream);
      case TensorFill::kTaps:
        return random(one, DType::kF32, stream);
      case TensorFill::kConstant:
        return TensorMaker::constant(one.name, one.shape, static_cast<float>(one.value));
      case TensorFill::kDecays:  // Mamba's initial values
        return floats(one, [&](double i) { return -(1 + 15 * i / n); });
      case TensorFill::kSteps:  // the inverse of softplus, for steps that are a geometric series
        return floats(one, [&](double i) { return std::log(std::expm1(1e-3 * std::pow(100.0, i / n))); });
      case TensorFill::kTurned:
        return floats(one, [&](double i) { return i < one.value ? 1.0 : 1e30; });
      case TensorFill::kRouter:
        return planted_router(space_, planted_experts(shape_, options_.expert_skew, stream), shape_.d_model,
                              1.0);
      case TensorFill::kGates:
        return planted_gates(tensors_, space_, one.name, options_.dtype, shape_, options_.active, stream);
    }
    assert(false);
    return {};
  }

  const SynthOptions& options_;
  const ModelShape& shape_;
  TensorMaker tensors_;
  ActivitySpace space_;
};

}  // namespace

SynthModel make_synth_hybrid(const SynthOptions& options, const std::function<void(double)>& progress) {
  return HybridMaker(options, progress).make();
}

SynthSizes hybrid_sizes(const SynthOptions& options) {
  const ModelShape& shape = options.shape;
  SynthSizes sizes;
  const auto add = [&](const std::vector<LayerTensor>& tensors, int64_t n_layers) {
    for (const LayerTensor& one : tensors) {
      const uint64_t bytes =
          static_cast<uint64_t>(row_bytes(one.is_matrix() ? options.dtype : DType::kF32, one.n_elements()));
      if (one.is_matrix() || one.fill == TensorFill::kTaps) sizes.made_elements += one.n_elements();
      sizes.memory_bytes += bytes;
      sizes.plain_bytes += bytes * static_cast<uint64_t>(n_layers);
    }
  };
  add(tensors_before(shape), 1);
  add(tensors_after(shape), 1);
  const LayerTensor vocabulary{.name = "token_embd.weight", .shape = {shape.d_model, shape.n_vocab}};
  for (int i = 0; i < (shape.tied ? 1 : 2); ++i) add({vocabulary}, 1);
  for (const LayerKind& kind : layer_kinds(shape)) {
    int64_t n = 0;
    for (int i = 0; i < shape.n_layers; ++i) n += layer_kind(shape, i) == kind ? 1 : 0;
    add(layer_tensors(shape, kind, options.active), n);
  }
  sizes.sparse_bytes = sizes.plain_bytes;
  return sizes;
}

}  // namespace hearth
