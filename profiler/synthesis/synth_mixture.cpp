// Makes the tensors of a mixture. planted_routing.h describes what is planted in them.
#include "profiler/synthesis/synth_mixture.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "profiler/synthesis/normal_stream.h"
#include "profiler/synthesis/planted_routing.h"
#include "profiler/synthesis/planted_tensors.h"
#include "profiler/synthesis/synth_activity.h"

namespace hearth {
namespace {

// The noise that is added to planted rows, relative to their size, so that no two rows are equal.
constexpr double kNoise = 0.02;

void add_noise(NormalStream& random, double deviation, std::span<float> out) {
  float noise[64];
  for (size_t i = 0; i < out.size(); ++i) {
    if (i % std::size(noise) == 0) random.fill(noise, static_cast<float>(deviation));
    out[i] += noise[i % std::size(noise)];
  }
}

class MixtureMaker {
 public:
  MixtureMaker(const SynthOptions& options, const std::function<void(double)>& progress)
      : options_(options),
        shape_(options.shape),
        tensors_(options.n_threads, synth_sizes(options).made_elements, progress),
        space_(shape_.d_model, key(kSpace)),
        attention_(recent_attention(synth_rope(shape_))) {
    assert(shape_.head_dim() >= ActivitySpace::kRank);
    const double correlation = correlation_for_reuse(experts(0), shape_.n_used, options_.expert_reuse);
    mix_ = mix_for_correlation(attention_.weights, correlation);
    input_rms_ = std::sqrt(ActivitySpace::mean_square({1.0, mix_.own, 1.0}));
  }

  SynthModel make() {
    SynthModel model;
    model.before.push_back(embedding());
    for (uint64_t i = 0; i < 2; ++i) model.layers.push_back(layer(i));
    // The mixing layer is the first layer with rotary embedding; SmallThinker's layer 0 has none.
    const int mixing = is_thinker() ? 1 : 0;
    model.special.push_back({mixing, mixing_output()});
    // SmallThinker's routers read the layer's input. Up to and including the mixing layer, this input does
    // not contain w' but only the token's own part, which has the length mix_.own relative to w'.
    for (int i = 0; is_thinker() && i <= mixing; ++i) {
      model.special.push_back({i, router(static_cast<uint64_t>(i), mix_.own)});
    }
    model.after.push_back(constant("output_norm.weight", {shape_.d_model}, 1.0f));
    model.after.push_back(output());
    return model;
  }

 private:
  using Tensors = std::vector<SynthTensor>;
  // Streams of random numbers. For a layer, the stream's key is mixed with the layer's number.
  enum Stream : uint64_t { kSpace, kEmbedding, kOutput, kExperts, kNeurons, kMatrices, kMixing };

  bool is_oss() const { return shape_.architecture == "gpt-oss"; }
  bool is_thinker() const { return shape_.architecture == "smallthinker"; }
  bool has_qk_norm() const { return shape_.architecture == "qwen3moe"; }
  bool turns_pairs() const { return shape_.architecture == "llama"; }
  uint64_t key(uint64_t stream) const { return mix_keys(options_.seed, stream); }
  double unit() const { return 1.0 / std::sqrt(static_cast<double>(shape_.d_model)); }

  static SynthTensor constant(std::string name, std::vector<int64_t> shape, float value) {
    return TensorMaker::constant(std::move(name), std::move(shape), value);
  }

  template <class Fill>
  SynthTensor matrix(std::string name, int64_t n_rows, int64_t n_cols, const Fill& fill) {
    return tensors_.stack(std::move(name), options_.dtype, 0, n_rows, n_cols, fill);
  }

  SynthTensor embedding() {
    return matrix("token_embd.weight", shape_.n_vocab, shape_.d_model,
                  [&](int64_t row, std::span<float> out) {
                    NormalStream random(mix_keys(key(kEmbedding), static_cast<uint64_t>(row)));
                    space_.input_row(random, {1.0, mix_.own, 1.0}, out);
                  });
  }

  SynthTensor output() {
    return planted_output(tensors_, space_, options_.dtype, shape_.n_vocab, shape_.d_model, key(kOutput));
  }

  Tensors layer(uint64_t number) {
    const uint64_t stream = mix_keys(key(kMatrices), number);
    Tensors tensors;
    tensors.push_back(constant("attn_norm.weight", {shape_.d_model}, 1.0f));
    add_attention(tensors, stream);
    tensors.push_back(
        constant(is_oss() ? "post_attention_norm.weight" : "ffn_norm.weight", {shape_.d_model}, 1.0f));
    add_router(tensors, number);
    add_experts(tensors, stream, number);
    return tensors;
  }

  void add_attention(Tensors& tensors, uint64_t stream) {
    const int64_t d = shape_.d_model, q = shape_.q_dim(), kv = shape_.kv_dim();
    tensors.push_back(distance_matrix("attn_q.weight", q, mix_keys(stream, 'q')));
    tensors.push_back(distance_matrix("attn_k.weight", kv, mix_keys(stream, 'k')));
    tensors.push_back(value_matrix(mix_keys(stream, 'v')));
    if (has_qk_norm()) {
      const float scale = static_cast<float>(normed_qk_scale());
      tensors.push_back(constant("attn_q_norm.weight", {shape_.head_dim()}, scale));
      tensors.push_back(constant("attn_k_norm.weight", {shape_.head_dim()}, scale));
    }
    tensors.push_back(tensors_.random_stack("attn_output.weight", options_.dtype, 0, d, q,
                                            mix_keys(stream, 'o'),
                                            kSynthContribution / shape_.n_layers * unit()));
    if (!is_oss()) return;
    for (const char* name : {"attn_q.bias", "attn_k.bias", "attn_v.bias", "attn_output.bias"}) {
      const bool is_q = name == std::string_view("attn_q.bias"),
                 is_out = name == std::string_view("attn_output.bias");
      tensors.push_back(constant(name, {is_q ? q : is_out ? d : kv}, 0.0f));
    }
    tensors.push_back(constant("attn_sinks.weight", {shape_.n_heads}, 0.0f));
  }

  /// Returns true if this dimension of query and key heads has the planted value, which is the same for all
  /// tokens. All other dimensions are 0.
  bool is_planted(int64_t dimension) const {
    const int64_t n_pairs = shape_.head_dim() / 2;
    return (turns_pairs() ? dimension / 2 : dimension % n_pairs) >= attention_.first_pair;
  }

  int n_planted() const { return shape_.head_dim() - 2 * attention_.first_pair; }

  /// Returns the weight of the norms of q and k. The norms' outputs have a mean square of 1 before the
  /// multiplication by this weight. With this weight, a token's attention score with itself is
  /// attention_.score.
  double normed_qk_scale() const {
    return std::sqrt(attention_.score / std::sqrt(static_cast<double>(shape_.head_dim())));
  }

  /// Makes the matrix [n_rows, d_model] of queries or keys that are the same for every token.
  SynthTensor distance_matrix(std::string name, int64_t n_rows, uint64_t stream) {
    const RopeSpec rope = synth_rope(shape_);
    const double magnitude = rope.scaling == RopeScaling::kYarn ? 0.1 * std::log(rope.factor) + 1.0 : 1.0;
    // score = n_planted value^2 magnitude^2 / sqrt(head_dim)
    const double value =
        std::sqrt(attention_.score * std::sqrt(static_cast<double>(shape_.head_dim())) / n_planted()) /
        magnitude;
    return matrix(std::move(name), n_rows, shape_.d_model, [&, value](int64_t row, std::span<float> out) {
      NormalStream random(mix_keys(stream, static_cast<uint64_t>(row)));
      std::fill(out.begin(), out.end(), 0.0f);
      if (is_planted(row % shape_.head_dim())) space_.constant_row(value * input_rms_, out);
      add_noise(random, kNoise * value * unit(), out);
    });
  }

  /// Returns the factor by which the value matrix scales the coordinates of w, so that values have a mean
  /// square of about 1.
  double value_scale() const { return std::sqrt(ActivitySpace::kRank / static_cast<double>(shape_.d_model)); }

  /// Makes the matrix of values. The first dimensions of each head of a token's value vector are the token's
  /// w.
  SynthTensor value_matrix(uint64_t stream) {
    return matrix("attn_v.weight", shape_.kv_dim(), shape_.d_model, [&](int64_t row, std::span<float> out) {
      const int64_t dimension = row % shape_.head_dim();
      NormalStream random(mix_keys(stream, static_cast<uint64_t>(row)));
      if (dimension >= ActivitySpace::kRank) return random.fill(out, static_cast<float>(unit()));
      space_.coordinate_row(static_cast<int>(dimension), out);
      for (float& value : out) value *= static_cast<float>(value_scale());
      add_noise(random, kNoise * unit(), out);
    });
  }

  /// Makes the attention output matrix of the mixing layer, which adds the mean of recent tokens' w to a
  /// token's own w (planted_routing.h).
  SynthTensor mixing_output() {
    const double scale = mix_.recent * input_rms_ / (value_scale() * shape_.n_heads);
    return matrix("attn_output.weight", shape_.d_model, shape_.q_dim(),
                  [&, scale](int64_t row, std::span<float> out) {
                    const ActivitySpace::Element element = space_.element(row);
                    NormalStream random(mix_keys(key(kMixing), static_cast<uint64_t>(row)));
                    random.fill(out, static_cast<float>(kNoise * scale * unit()));
                    for (int head = 0; head < shape_.n_heads; ++head) {
                      out[static_cast<size_t>(head * shape_.head_dim() + element.coordinate)] =
                          static_cast<float>(scale) * element.weight;
                    }
                  });
  }

  std::vector<PlantedDirection> experts(uint64_t number) const {
    return planted_experts(shape_, options_.expert_skew, mix_keys(key(kExperts), number));
  }

  /// Makes a router. number: 0 or 1, the index of one of the two distinct layers. length: as
  /// planted_router().
  SynthTensor router(uint64_t number, double length) const {
    return planted_router(space_, experts(number), shape_.d_model, length);
  }

  void add_router(Tensors& tensors, uint64_t number) {
    tensors.push_back(router(number, 1.0));
    if (is_oss()) tensors.push_back(constant("ffn_gate_inp.bias", {shape_.n_experts}, 0.0f));
  }

  void add_experts(Tensors& tensors, uint64_t stream, uint64_t number) {
    const int64_t n = shape_.n_experts, d = shape_.d_model, width = shape_.d_expert;
    const DType dtype = shape_.mxfp4_experts ? DType::kMXFP4 : options_.dtype;
    // The mean square of act(gate). If values are exactly zero for some neurons, it is the share of neurons
    // that fire. Otherwise it is the mean square of SwiGLU's activation for a normally distributed gate.
    const double square = shape_.has_zero_neurons() ? options_.active : 0.36;
    // The router gives each of a token's n_used experts a weight of about 1 / n_used.
    const double down = kSynthContribution / (shape_.n_layers * std::sqrt(width * square / shape_.n_used));
    if (shape_.has_zero_neurons()) {
      tensors.push_back(planted_gates(tensors_, space_, "ffn_gate_exps.weight", dtype, shape_,
                                      options_.active, mix_keys(key(kNeurons), number)));
    } else {
      tensors.push_back(
          tensors_.random_stack("ffn_gate_exps.weight", dtype, n, width, d, mix_keys(stream, 'g'), unit()));
    }
    tensors.push_back(
        tensors_.random_stack("ffn_up_exps.weight", dtype, n, width, d, mix_keys(stream, 'u'), unit()));
    tensors.push_back(
        tensors_.random_stack("ffn_down_exps.weight", dtype, n, d, width, mix_keys(stream, 'd'), down));
    if (!is_oss()) return;
    tensors.push_back(constant("ffn_gate_exps.bias", {width, n}, 0.0f));
    tensors.push_back(constant("ffn_up_exps.bias", {width, n}, 0.0f));
    tensors.push_back(constant("ffn_down_exps.bias", {d, n}, 0.0f));
  }

  const SynthOptions& options_;
  const ModelShape& shape_;
  TensorMaker tensors_;
  ActivitySpace space_;
  RecentAttention attention_;
  RecentMix mix_;
  double input_rms_ = 1;  // root mean square of an input before recent tokens' w are added
};

}  // namespace

RopeSpec synth_rope(const ModelShape& shape) {
  RopeSpec rope;
  rope.n_rot = shape.head_dim();
  if (shape.rope_base > 0) rope.base = shape.rope_base;
  if (shape.architecture == "gpt-oss") {
    rope.scaling = RopeScaling::kYarn;
    rope.factor = kOssRopeFactor;
    rope.original_context = kOssOriginalContext;
    rope.yarn_rounds = false;
  }
  return rope;
}

SynthModel make_synth_mixture(const SynthOptions& options, const std::function<void(double)>& progress) {
  return MixtureMaker(options, progress).make();
}

}  // namespace hearth
