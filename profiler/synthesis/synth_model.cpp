// Lists the tensors of each architecture, and makes their random values.
#include "profiler/synthesis/synth_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "kernels/quant/quantize.h"
#include "profiler/synthesis/normal_stream.h"
#include "profiler/synthesis/planted_routing.h"
#include "profiler/synthesis/planted_tensors.h"
#include "profiler/synthesis/synth_activity.h"
#include "profiler/synthesis/synth_hybrid.h"
#include "profiler/synthesis/synth_mixture.h"

namespace hearth {
namespace {

// Streams of random numbers. For a layer, the stream's key is mixed with the layer's number.
enum Stream : uint64_t { kSpace, kPredictor, kEmbedding, kPosition, kOutput, kNeurons, kOrder, kMatrices };

// OPT's positions begin at 2
int64_t n_positions(const ModelShape& shape) { return shape.context_tokens + 2; }

class Maker {
 public:
  Maker(const SynthOptions& options, const std::function<void(double)>& progress)
      : options_(options),
        shape_(options.shape),
        tensors_(options.n_threads, synth_sizes(options).made_elements, progress),
        space_(shape_.d_model, key(kSpace)) {}

  SynthModel make() {
    SynthModel model;
    model.before.push_back(embedding());
    if (is_opt()) model.before.push_back(positions());
    for (uint64_t i = 0; i < 2; ++i) model.layers.push_back(layer(i));
    add_norm(model.after, "output_norm");
    if (!is_opt() && !shape_.tied) model.after.push_back(output());
    return model;
  }

 private:
  bool is_opt() const { return shape_.architecture == "opt"; }
  bool is_falcon() const { return shape_.architecture == "falcon"; }
  bool is_gemma() const { return shape_.architecture == "gemma3"; }
  bool is_phi() const { return shape_.architecture == "phi3"; }
  bool gated() const { return shape_.gated(); }
  uint64_t key(uint64_t stream) const { return mix_keys(options_.seed, stream); }

  /// Makes a matrix of the model's type. fill(row, values) sets the values of a row.
  template <class Fill>
  SynthTensor matrix(std::string name, int64_t n_rows, int64_t n_cols, const Fill& fill) {
    return tensors_.stack(std::move(name), options_.dtype, 0, n_rows, n_cols, fill);
  }

  SynthTensor random_matrix(std::string name, int64_t n_rows, int64_t n_cols, uint64_t stream,
                            double deviation) {
    return tensors_.random_stack(std::move(name), options_.dtype, 0, n_rows, n_cols, stream, deviation);
  }

  static SynthTensor constant_vector(std::string name, int64_t n, float value) {
    return TensorMaker::constant(std::move(name), {n}, value);
  }

  void add_norm(std::vector<SynthTensor>& to, const std::string& stem) const {
    to.push_back(constant_vector(stem + ".weight", shape_.d_model, 1.0f));
    if (!gated()) to.push_back(constant_vector(stem + ".bias", shape_.d_model, 0.0f));
  }

  SynthTensor embedding() {
    const double vary = is_opt() ? std::sqrt(0.5) : 1.0;
    // Gemma multiplies embeddings by the square root of d_model.
    const float scale = is_gemma() ? 1.0f / std::sqrt(static_cast<float>(shape_.d_model)) : 1.0f;
    return matrix("token_embd.weight", shape_.n_vocab, shape_.d_model,
                  [&](int64_t row, std::span<float> out) {
                    NormalStream random(mix_keys(key(kEmbedding), static_cast<uint64_t>(row)));
                    space_.input_row(random, {1.0, vary, vary}, out);
                    for (float& value : out) value *= scale;
                  });
  }

  // OPT's output matrix is its embedding, so greedy decoding repeats one token. Because of the position
  // embeddings, the neurons' activity still varies from token to token.
  SynthTensor positions() {
    return matrix("position_embd.weight", n_positions(shape_), shape_.d_model,
                  [&](int64_t row, std::span<float> out) {
                    NormalStream random(mix_keys(key(kPosition), static_cast<uint64_t>(row)));
                    space_.input_row(random, {0.0, std::sqrt(0.5), std::sqrt(0.5)}, out);
                  });
  }

  SynthTensor output() {
    return planted_output(tensors_, space_, options_.dtype, shape_.n_vocab, shape_.d_model, key(kOutput));
  }

  std::vector<PlantedDirection> neurons(uint64_t layer) const {
    const std::vector<double> p = firing_probabilities(shape_.d_ff, options_.active);
    std::vector<size_t> order(p.size());
    std::iota(order.begin(), order.end(), size_t{0});
    NormalStream shuffle(mix_keys(key(kOrder), layer));
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[shuffle.bits() % i]);
    NormalStream random(mix_keys(key(kNeurons), layer));
    std::vector<PlantedDirection> all(p.size());
    for (size_t i = 0; i < p.size(); ++i) {
      all[i] = {ActivitySpace::random_direction(random), ActivitySpace::cosine_of(p[order[i]])};
    }
    return all;
  }

  std::vector<SynthTensor> layer(uint64_t number) {
    const uint64_t stream = mix_keys(key(kMatrices), number);
    const double unit = 1.0 / std::sqrt(static_cast<double>(shape_.d_model));
    std::vector<SynthTensor> tensors;
    add_norm(tensors, "attn_norm");
    if (is_falcon()) add_norm(tensors, "attn_norm_2");
    add_attention(tensors, stream, unit);
    if (is_gemma()) add_post_norm(tensors, "post_attention_norm.weight");
    if (!is_falcon()) add_norm(tensors, "ffn_norm");
    if (!shape_.has_zero_neurons()) {
      add_random_up(tensors, stream, unit);
      add_down(tensors, mix_keys(stream, 'd'));
      if (is_gemma()) add_post_norm(tensors, "post_ffw_norm.weight");
      return tensors;
    }
    const std::vector<PlantedDirection> all = neurons(number);
    add_up(tensors, all, stream, unit);
    add_down(tensors, mix_keys(stream, 'd'));
    if (options_.sparse) add_predictor(tensors, all, number);
    return tensors;
  }

  /// Adds the norm that follows attention or the FFN. It normalizes their output to a mean square of 1, then
  /// scales it to the contribution of one layer.
  void add_post_norm(std::vector<SynthTensor>& tensors, std::string name) const {
    tensors.push_back(constant_vector(std::move(name), shape_.d_model,
                                      static_cast<float>(kSynthContribution / shape_.n_layers)));
  }

  void add_attention(std::vector<SynthTensor>& tensors, uint64_t stream, double unit) {
    const int64_t d = shape_.d_model, q = shape_.q_dim(), kv = shape_.kv_dim();
    if (is_falcon() || is_phi()) {
      tensors.push_back(random_matrix("attn_qkv.weight", q + 2 * kv, d, mix_keys(stream, 'a'), unit));
    } else {
      tensors.push_back(random_matrix("attn_q.weight", q, d, mix_keys(stream, 'q'), unit));
      tensors.push_back(random_matrix("attn_k.weight", kv, d, mix_keys(stream, 'k'), unit));
      tensors.push_back(random_matrix("attn_v.weight", kv, d, mix_keys(stream, 'v'), unit));
    }
    if (is_gemma()) {
      tensors.push_back(constant_vector("attn_q_norm.weight", shape_.head_dim(), 1.0f));
      tensors.push_back(constant_vector("attn_k_norm.weight", shape_.head_dim(), 1.0f));
    }
    const double deviation = kSynthContribution / shape_.n_layers * unit;
    tensors.push_back(random_matrix("attn_output.weight", d, q, mix_keys(stream, 'o'), deviation));
    if (!is_opt()) return;
    tensors.push_back(constant_vector("attn_q.bias", d, 0.0f));
    tensors.push_back(constant_vector("attn_k.bias", kv, 0.0f));
    tensors.push_back(constant_vector("attn_v.bias", kv, 0.0f));
    tensors.push_back(constant_vector("attn_output.bias", d, 0.0f));
  }

  /// Adds the gate and up matrices of an FFN whose neurons never output zero.
  void add_random_up(std::vector<SynthTensor>& tensors, uint64_t stream, double unit) {
    const int64_t d = shape_.d_model, ff = shape_.d_ff;
    if (is_phi()) {  // gate and up are one tensor
      tensors.push_back(random_matrix("ffn_up.weight", 2 * ff, d, mix_keys(stream, 'u'), unit));
      return;
    }
    tensors.push_back(random_matrix("ffn_gate.weight", ff, d, mix_keys(stream, 'g'), unit));
    tensors.push_back(random_matrix("ffn_up.weight", ff, d, mix_keys(stream, 'u'), unit));
  }

  /// Adds the matrix that decides which neurons fire: the gate or, if there is none, up. For a gated FFN,
  /// also adds up.
  void add_up(std::vector<SynthTensor>& tensors, const std::vector<PlantedDirection>& all, uint64_t stream,
              double unit) {
    const int64_t d = shape_.d_model;
    const auto planted = [&](int64_t row, std::span<float> out) {
      const PlantedDirection& neuron = all[static_cast<size_t>(row)];
      space_.gate_row(neuron.direction, neuron.cosine, out);
    };
    tensors.push_back(matrix(gated() ? "ffn_gate.weight" : "ffn_up.weight", shape_.d_ff, d, planted));
    if (is_opt()) tensors.push_back(constant_vector("ffn_up.bias", shape_.d_ff, 0.0f));
    if (!gated()) return;
    const uint64_t up = mix_keys(stream, 'u');
    if (shape_.architecture != "bamboo") {
      tensors.push_back(random_matrix("ffn_up.weight", shape_.d_ff, d, up, unit));
      return;
    }
    // With dReLU, a neuron fires only if both gate and up are positive, so the rows of up are similar to
    // those of the gate.
    tensors.push_back(matrix("ffn_up.weight", shape_.d_ff, d, [&](int64_t row, std::span<float> out) {
      NormalStream random(mix_keys(up, static_cast<uint64_t>(row)));
      planted(row, out);
      std::array<float, 64> noise;
      for (size_t i = 0; i < out.size(); ++i) {
        if (i % noise.size() == 0) random.fill(noise, static_cast<float>(0.1 * unit));
        out[i] += noise[i % noise.size()];
      }
    }));
  }

  /// Adds ffn_down [d_ff, d_model] and ffn_down_t [d_model, d_ff], made from the same values. Each thread
  /// makes a tile of neurons at a time.
  void add_down(std::vector<SynthTensor>& tensors, uint64_t stream) {
    constexpr int64_t kTile = 32;  // neurons of a tile: one weight block of every type made here
    const int64_t d = shape_.d_model, ff = shape_.d_ff;
    const double deviation = kSynthContribution / (shape_.n_layers * std::sqrt(ff * options_.active));
    SynthTensor down{"ffn_down.weight", options_.dtype, {ff, d}, {}};
    SynthTensor down_t{"ffn_down_t.weight", options_.dtype, {d, ff}, {}};
    const size_t down_stride = row_bytes(options_.dtype, ff), down_t_stride = row_bytes(options_.dtype, d);
    const size_t tile_bytes = row_bytes(options_.dtype, kTile);
    if (options_.plain) down.bytes.resize(down_stride * static_cast<size_t>(d));
    if (options_.sparse) down_t.bytes.resize(down_t_stride * static_cast<size_t>(ff));
    std::vector<float> scratch(static_cast<size_t>(tensors_.pool().n_threads() * kTile * d));
    tensors_.pool().for_each_piece(ff / kTile, 1, [&](int64_t tile, int64_t, int worker) {
      const std::span<float> values =
          std::span(scratch).subspan(static_cast<size_t>(worker * kTile * d), static_cast<size_t>(kTile * d));
      NormalStream random(mix_keys(stream, static_cast<uint64_t>(tile)));
      random.fill(values, static_cast<float>(deviation));
      for (int64_t i = 0; options_.sparse && i < kTile; ++i) {
        quantize_row(options_.dtype, values.data() + i * d, d,
                     down_t.bytes.data() + static_cast<size_t>(tile * kTile + i) * down_t_stride);
      }
      for (int64_t row = 0; options_.plain && row < d; ++row) {
        float column[kTile];
        for (int64_t i = 0; i < kTile; ++i) column[i] = values[static_cast<size_t>(i * d + row)];
        quantize_row(options_.dtype, column, kTile,
                     down.bytes.data() + static_cast<size_t>(row) * down_stride +
                         static_cast<size_t>(tile) * tile_bytes);
      }
    });
    if (options_.plain) tensors.push_back(std::move(down));
    if (options_.sparse) tensors.push_back(std::move(down_t));
    tensors_.done(d * ff * ((options_.plain ? 1 : 0) + (options_.sparse ? 1 : 0)));
    if (!is_opt()) return;
    if (options_.plain) tensors.push_back(constant_vector("ffn_down.bias", d, 0.0f));
    if (options_.sparse) tensors.push_back(constant_vector("ffn_down_t.bias", d, 0.0f));
  }

  void add_predictor(std::vector<SynthTensor>& tensors, const std::vector<PlantedDirection>& all,
                     uint64_t number) {
    const PlantedPredictor predictor(space_, shape_.predictor_rank, mix_keys(key(kPredictor), number));
    tensors.push_back(
        matrix("fc1.weight", shape_.predictor_rank, shape_.d_model,
               [&](int64_t row, std::span<float> out) { predictor.fc1_row(static_cast<int>(row), out); }));
    tensors.push_back(
        matrix("fc2.weight", shape_.d_ff, shape_.predictor_rank, [&](int64_t row, std::span<float> out) {
          const PlantedDirection& neuron = all[static_cast<size_t>(row)];
          predictor.fc2_row(neuron.direction, neuron.cosine, out);
        }));
  }

  const SynthOptions& options_;
  const ModelShape& shape_;
  TensorMaker tensors_;
  ActivitySpace space_;
};

}  // namespace

SynthSizes synth_sizes(const SynthOptions& options) {
  const ModelShape& shape = options.shape;
  if (shape.is_hybrid()) return hybrid_sizes(options);
  const int64_t d = shape.d_model, layers = shape.n_layers;
  const int64_t attention = 2 * d * (shape.q_dim() + shape.kv_dim());
  const int64_t ffn_matrix =
      shape.has_experts() ? int64_t{shape.n_experts} * shape.d_expert * d : d * shape.d_ff;
  const int64_t up = ffn_matrix * (shape.gated() ? 2 : 1);
  const int64_t predictor = shape.predictor_rank * (d + shape.d_ff);
  const int64_t second = shape.tied ? 0 : shape.architecture == "opt" ? n_positions(shape) : shape.n_vocab;
  const int64_t outside = (shape.n_vocab + second) * d;
  const int64_t ffn = up + (options.plain ? ffn_matrix : 0) + (options.sparse ? ffn_matrix + predictor : 0);
  // The mixing layer of a mixture has its own attention output matrix.
  const int64_t mixing = shape.has_experts() ? d * shape.q_dim() : 0;
  const auto bytes = [&](int64_t n) { return static_cast<uint64_t>(row_bytes(options.dtype, n)); };
  const auto ffn_bytes = [&](int64_t n) {
    return static_cast<uint64_t>(row_bytes(shape.mxfp4_experts ? DType::kMXFP4 : options.dtype, n));
  };
  SynthSizes sizes;
  sizes.made_elements = 2 * (attention + ffn) + outside + mixing;
  sizes.memory_bytes = bytes(2 * attention + outside + mixing) + ffn_bytes(2 * ffn);
  sizes.plain_bytes = bytes(layers * attention + outside) + ffn_bytes(layers * (up + ffn_matrix));
  sizes.sparse_bytes = sizes.plain_bytes + bytes(layers * predictor);
  return sizes;
}

SynthModel make_synth_model(const SynthOptions& options, const std::function<void(double)>& progress) {
  if (options.shape.is_hybrid()) return make_synth_hybrid(options, progress);
  return options.shape.has_experts() ? make_synth_mixture(options, progress)
                                     : Maker(options, progress).make();
}

}  // namespace hearth
