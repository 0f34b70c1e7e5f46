// Which tensors an architecture has, and their random values.
#include "profiler/synthesis/synth_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "kernels/cpu/thread_pool.h"
#include "kernels/quant/quantize.h"
#include "profiler/synthesis/normal_stream.h"
#include "profiler/synthesis/synth_activity.h"
#include "profiler/synthesis/synth_file.h"

namespace hearth {
namespace {

// How much attention and the FFN add to the residual, in all layers together, beside an embedding of 1. The
// layers repeat and the residual changes slowly, so their contributions add up as lengths, not as squares.
constexpr double kContribution = 0.25;

// Streams of random numbers; a layer's streams are mixed with its number.
enum Stream : uint64_t { kSpace, kPredictor, kEmbedding, kPosition, kOutput, kNeurons, kOrder, kMatrices };

struct Neuron {
  ActivitySpace::Direction direction;
  double cosine;
};

bool is_gated(const ModelShape& shape) {
  return shape.architecture != "opt" && shape.architecture != "falcon";
}

int64_t n_positions(const ModelShape& shape) { return shape.context_tokens + 2; }  // OPT's begin at 2

class Maker {
 public:
  Maker(const SynthOptions& options, const std::function<void(double)>& progress)
      : options_(options),
        shape_(options.shape),
        progress_(progress),
        pool_(options.n_threads),
        space_(shape_.d_model, key(kSpace)) {}

  SynthModel make() {
    SynthModel model;
    n_elements_ = synth_sizes(options_).made_elements;
    model.before.push_back(embedding());
    if (is_opt()) model.before.push_back(positions());
    for (uint64_t i = 0; i < 2; ++i) model.layers[i] = layer(i);
    add_norm(model.after, "output_norm");
    if (!is_opt()) model.after.push_back(output());
    return model;
  }

 private:
  bool is_opt() const { return shape_.architecture == "opt"; }
  bool is_falcon() const { return shape_.architecture == "falcon"; }
  bool gated() const { return is_gated(shape_); }
  uint64_t key(uint64_t stream) const { return mix_keys(options_.seed, stream); }

  void done(int64_t n_elements) {
    n_done_ += n_elements;
    if (progress_) progress_(static_cast<double>(n_done_) / static_cast<double>(n_elements_));
  }

  /// A matrix of the model's type; fill(row, values) gives the values of a row.
  template <class Fill>
  SynthTensor matrix(std::string name, int64_t n_rows, int64_t n_cols, const Fill& fill) {
    SynthTensor tensor{std::move(name), options_.dtype, {n_cols, n_rows}, {}};
    const size_t stride = row_bytes(options_.dtype, n_cols);
    tensor.bytes.resize(stride * static_cast<size_t>(n_rows));
    std::vector<float> scratch(static_cast<size_t>(pool_.n_threads()) * static_cast<size_t>(n_cols));
    pool_.for_each_piece(n_rows, 16, [&](int64_t begin, int64_t end, int worker) {
      const std::span<float> values =
          std::span(scratch).subspan(static_cast<size_t>(worker * n_cols), static_cast<size_t>(n_cols));
      for (int64_t row = begin; row < end; ++row) {
        fill(row, values);
        quantize_row(options_.dtype, values.data(), n_cols,
                     tensor.bytes.data() + static_cast<size_t>(row) * stride);
      }
    });
    done(n_rows * n_cols);
    return tensor;
  }

  SynthTensor random_matrix(std::string name, int64_t n_rows, int64_t n_cols, uint64_t stream,
                            double deviation) {
    return matrix(std::move(name), n_rows, n_cols, [&](int64_t row, std::span<float> out) {
      NormalStream random(mix_keys(stream, static_cast<uint64_t>(row)));
      random.fill(out, static_cast<float>(deviation));
    });
  }

  static SynthTensor constant_vector(std::string name, int64_t n, float value) {
    SynthTensor tensor{std::move(name), DType::kF32, {n}, {}};
    const std::vector<float> values(static_cast<size_t>(n), value);
    const std::span<const std::byte> bytes = std::as_bytes(std::span(values));
    tensor.bytes.assign(bytes.begin(), bytes.end());
    return tensor;
  }

  void add_norm(std::vector<SynthTensor>& to, const std::string& stem) const {
    to.push_back(constant_vector(stem + ".weight", shape_.d_model, 1.0f));
    if (!gated()) to.push_back(constant_vector(stem + ".bias", shape_.d_model, 0.0f));
  }

  SynthTensor embedding() {
    const float vary = is_opt() ? std::sqrt(0.5f) : 1.0f;
    return matrix("token_embd.weight", shape_.n_vocab, shape_.d_model,
                  [&](int64_t row, std::span<float> out) {
                    NormalStream random(mix_keys(key(kEmbedding), static_cast<uint64_t>(row)));
                    space_.input_row(random, 1.0f, vary, out);
                  });
  }

  // OPT's output matrix is its embedding, so greedy decoding stays at one token; only positions then make
  // activity vary.
  SynthTensor positions() {
    return matrix("position_embd.weight", n_positions(shape_), shape_.d_model,
                  [&](int64_t row, std::span<float> out) {
                    NormalStream random(mix_keys(key(kPosition), static_cast<uint64_t>(row)));
                    space_.input_row(random, 0.0f, std::sqrt(0.5f), out);
                  });
  }

  SynthTensor output() {
    return matrix("output.weight", shape_.n_vocab, shape_.d_model, [&](int64_t row, std::span<float> out) {
      if (row <= kSynthEnd) {  // control tokens never win, so nothing ends a text early
        std::fill(out.begin(), out.end(), 0.0f);
        return;
      }
      NormalStream random(mix_keys(key(kOutput), static_cast<uint64_t>(row)));
      random.fill(out, 1.0f / std::sqrt(static_cast<float>(out.size())));
      space_.remove_constant_part(out);
    });
  }

  std::vector<Neuron> neurons(uint64_t layer) const {
    const std::vector<double> p = firing_probabilities(shape_.d_ff, options_.active);
    std::vector<size_t> order(p.size());
    std::iota(order.begin(), order.end(), size_t{0});
    NormalStream shuffle(mix_keys(key(kOrder), layer));
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[shuffle.bits() % i]);
    NormalStream random(mix_keys(key(kNeurons), layer));
    std::vector<Neuron> all(p.size());
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
    if (!is_falcon()) add_norm(tensors, "ffn_norm");
    const std::vector<Neuron> all = neurons(number);
    add_up(tensors, all, stream, unit);
    add_down(tensors, mix_keys(stream, 'd'));
    if (options_.sparse) add_predictor(tensors, all, number);
    return tensors;
  }

  void add_attention(std::vector<SynthTensor>& tensors, uint64_t stream, double unit) {
    const int64_t d = shape_.d_model, kv = shape_.kv_dim();
    if (is_falcon()) {
      tensors.push_back(random_matrix("attn_qkv.weight", d + 2 * kv, d, mix_keys(stream, 'a'), unit));
    } else {
      tensors.push_back(random_matrix("attn_q.weight", d, d, mix_keys(stream, 'q'), unit));
      tensors.push_back(random_matrix("attn_k.weight", kv, d, mix_keys(stream, 'k'), unit));
      tensors.push_back(random_matrix("attn_v.weight", kv, d, mix_keys(stream, 'v'), unit));
    }
    const double deviation = kContribution / shape_.n_layers * unit;
    tensors.push_back(random_matrix("attn_output.weight", d, d, mix_keys(stream, 'o'), deviation));
    if (!is_opt()) return;
    tensors.push_back(constant_vector("attn_q.bias", d, 0.0f));
    tensors.push_back(constant_vector("attn_k.bias", kv, 0.0f));
    tensors.push_back(constant_vector("attn_v.bias", kv, 0.0f));
    tensors.push_back(constant_vector("attn_output.bias", d, 0.0f));
  }

  /// Adds the matrix that decides which neurons fire (the gate or, without one, up), and the up of a gated
  /// FFN.
  void add_up(std::vector<SynthTensor>& tensors, const std::vector<Neuron>& all, uint64_t stream,
              double unit) {
    const int64_t d = shape_.d_model;
    const auto planted = [&](int64_t row, std::span<float> out) {
      const Neuron& neuron = all[static_cast<size_t>(row)];
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
    // dReLU: a neuron fires only where gate and up both pass, so up agrees with the gate.
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

  /// Adds ffn_down [d_ff, d_model] and ffn_down_t [d_model, d_ff] from the same values, some neurons at a
  /// time.
  void add_down(std::vector<SynthTensor>& tensors, uint64_t stream) {
    constexpr int64_t kTile = 32;  // neurons: one weight block of every type that is made here
    const int64_t d = shape_.d_model, ff = shape_.d_ff;
    const double deviation = kContribution / (shape_.n_layers * std::sqrt(ff * options_.active));
    SynthTensor down{"ffn_down.weight", options_.dtype, {ff, d}, {}};
    SynthTensor down_t{"ffn_down_t.weight", options_.dtype, {d, ff}, {}};
    const size_t down_stride = row_bytes(options_.dtype, ff), down_t_stride = row_bytes(options_.dtype, d);
    const size_t tile_bytes = row_bytes(options_.dtype, kTile);
    if (options_.plain) down.bytes.resize(down_stride * static_cast<size_t>(d));
    if (options_.sparse) down_t.bytes.resize(down_t_stride * static_cast<size_t>(ff));
    std::vector<float> scratch(static_cast<size_t>(pool_.n_threads() * kTile * d));
    pool_.for_each_piece(ff / kTile, 1, [&](int64_t tile, int64_t, int worker) {
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
    done(d * ff * ((options_.plain ? 1 : 0) + (options_.sparse ? 1 : 0)));
    if (!is_opt()) return;
    if (options_.plain) tensors.push_back(constant_vector("ffn_down.bias", d, 0.0f));
    if (options_.sparse) tensors.push_back(constant_vector("ffn_down_t.bias", d, 0.0f));
  }

  void add_predictor(std::vector<SynthTensor>& tensors, const std::vector<Neuron>& all, uint64_t number) {
    const PlantedPredictor predictor(space_, shape_.predictor_rank, mix_keys(key(kPredictor), number));
    tensors.push_back(
        matrix("fc1.weight", shape_.predictor_rank, shape_.d_model,
               [&](int64_t row, std::span<float> out) { predictor.fc1_row(static_cast<int>(row), out); }));
    tensors.push_back(
        matrix("fc2.weight", shape_.d_ff, shape_.predictor_rank, [&](int64_t row, std::span<float> out) {
          const Neuron& neuron = all[static_cast<size_t>(row)];
          predictor.fc2_row(neuron.direction, neuron.cosine, out);
        }));
  }

  const SynthOptions& options_;
  const ModelShape& shape_;
  const std::function<void(double)>& progress_;
  ThreadPool pool_;
  ActivitySpace space_;
  int64_t n_elements_ = 0, n_done_ = 0;
};

}  // namespace

SynthSizes synth_sizes(const SynthOptions& options) {
  const ModelShape& shape = options.shape;
  const int64_t d = shape.d_model, layers = shape.n_layers;
  const int64_t attention = 2 * d * d + 2 * d * shape.kv_dim();
  const int64_t ffn_matrix = d * shape.d_ff;
  const int64_t up = ffn_matrix * (is_gated(shape) ? 2 : 1);
  const int64_t predictor = shape.predictor_rank * (d + shape.d_ff);
  const int64_t second = shape.architecture == "opt" ? n_positions(shape) : shape.n_vocab;
  const int64_t outside = (shape.n_vocab + second) * d;
  const int64_t layer =
      attention + up + (options.plain ? ffn_matrix : 0) + (options.sparse ? ffn_matrix + predictor : 0);
  const auto bytes = [&](int64_t n) { return static_cast<uint64_t>(row_bytes(options.dtype, n)); };
  SynthSizes sizes;
  sizes.made_elements = 2 * layer + outside;
  sizes.memory_bytes = bytes(sizes.made_elements);
  sizes.plain_bytes = bytes(layers * (attention + up + ffn_matrix) + outside);
  sizes.sparse_bytes = sizes.plain_bytes + bytes(layers * predictor);
  return sizes;
}

SynthModel make_synth_model(const SynthOptions& options, const std::function<void(double)>& progress) {
  return Maker(options, progress).make();
}

}  // namespace hearth
