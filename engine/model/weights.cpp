// Binding of a file's tensors to the roles of an architecture. Names are GGUF's.
#include "engine/model/weights.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <vector>

#include "engine/model/gguf/fault.h"
#include "kernels/quant/dequantize.h"

namespace hearth {
namespace {

[[noreturn]] void fail(const ModelFile& file, std::string_view tensor, const std::string& sentence) {
  gguf::fail(gguf::file_label(file.path().string()), "tensor " + gguf::quoted(tensor) + sentence);
}

std::string shape_text(const TensorInfo& tensor) {
  std::string text = "[";
  for (int i = 0; i < tensor.n_dims; ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(tensor.shape[static_cast<size_t>(i)]);
  }
  return text + "]";
}

/// Looks tensors up by name, checks them, remembers which were used and places the vectors in one buffer.
class Binder {
 public:
  explicit Binder(const ModelFile& file) : file_(file) {
    size_t n_floats = 0;
    for (const TensorInfo& tensor : file.tensors()) {
      if (tensor.shape[1] * tensor.shape[2] * tensor.shape[3] == 1) n_floats += padded(tensor.shape[0]);
    }
    lines_.resize(n_floats / kLineFloats);
  }

  /// A matrix [n_rows, n_cols]. Throws if missing.
  Matrix matrix(const std::string& name, int64_t n_rows, int64_t n_cols) {
    const TensorInfo& tensor = require(name, n_cols, n_rows);
    return Matrix{tensor.data, tensor.dtype, n_rows, n_cols};
  }

  /// A vector [n] as floats, or null if the file has none.
  const float* optional_vector(const std::string& name, int64_t n) {
    return file_.find_tensor(name) == nullptr ? nullptr : vector(name, n);
  }

  const float* vector(const std::string& name, int64_t n) {
    const TensorInfo& tensor = require(name, n, 1);
    float* out = lines_[used_floats_ / kLineFloats].floats;
    used_floats_ += padded(n);
    dequantize_row(tensor.dtype, tensor.data, n, out);
    return out;
  }

  /// Rows of a matrix whose number of them is its own choice. Throws if missing.
  int64_t rows_of(const std::string& name) const { return found(name).shape[1]; }

  [[noreturn]] void fail_tensor(const std::string& name, const std::string& sentence) const {
    fail(file_, name, sentence);
  }

  bool has(const std::string& name) const { return file_.find_tensor(name) != nullptr; }

  Linear linear(const std::string& stem, int64_t n_rows, int64_t n_cols, bool bias_required = false) {
    const std::string bias = stem + ".bias";
    return {matrix(stem + ".weight", n_rows, n_cols),
            bias_required ? vector(bias, n_rows) : optional_vector(bias, n_rows)};
  }

  NormWeights norm(const std::string& stem, int64_t n, NormKind kind) {
    return {vector(stem + ".weight", n), kind == NormKind::kLayer ? vector(stem + ".bias", n) : nullptr};
  }

  /// Throws if the file has a tensor that was never looked up.
  void refuse_unused(const ModelSpec& spec) const {
    for (const TensorInfo& tensor : file_.tensors()) {
      if (used_.contains(tensor.name)) continue;
      fail(file_, tensor.name,
           " is no part of architecture " + std::string(spec.arch.name) + " with " +
               std::to_string(spec.n_layers) +
               " layers as Hearth runs it, and leaving it out would give wrong answers");
    }
  }

  std::vector<Weights::Line> take_vectors() { return std::move(lines_); }

 private:
  // Vectors start on cache lines, as kernels like them.
  static constexpr size_t kLineFloats = 16;
  static size_t padded(int64_t n) {
    return (static_cast<size_t>(n) + kLineFloats - 1) / kLineFloats * kLineFloats;
  }

  const TensorInfo& found(const std::string& name) const {
    const TensorInfo* tensor = file_.find_tensor(name);
    if (tensor == nullptr) {
      fail(file_, name, " is missing; the file is incomplete or made for another program: download it again");
    }
    return *tensor;
  }

  const TensorInfo& require(const std::string& name, int64_t shape0, int64_t shape1) {
    const TensorInfo& tensor = found(name);
    const std::array<int64_t, 4> expected{shape0, shape1, 1, 1};
    if (tensor.shape != expected) {
      fail(file_, name,
           " is " + shape_text(tensor) + ", expected [" + std::to_string(shape0) +
               (shape1 == 1 ? "" : ", " + std::to_string(shape1)) +
               "] by the file's own keys; the file is damaged");
    }
    used_.insert(tensor.name);
    return tensor;
  }

  const ModelFile& file_;
  std::vector<Weights::Line> lines_;
  size_t used_floats_ = 0;
  std::set<std::string_view> used_;
};

/// Parallel layers norm their input once for both attention and FFN, or (attn_norm_2) attention's share
/// apart.
void bind_norms(Binder& bind, const ModelSpec& spec, const std::string& prefix, LayerWeights& w) {
  const NormWeights first = bind.norm(prefix + "attn_norm", spec.d_model, spec.arch.norm);
  if (!spec.arch.parallel_attention) {
    w.attention_norm = first;
    w.ffn_norm = bind.norm(prefix + "ffn_norm", spec.d_model, spec.arch.norm);
  } else if (bind.has(prefix + "attn_norm_2.weight")) {
    w.attention_norm = bind.norm(prefix + "attn_norm_2", spec.d_model, spec.arch.norm);
    w.ffn_norm = first;
  } else {
    w.attention_norm = first;
  }
}

/// q, k and v: tensors of their own, or one under the other in attn_qkv.
void bind_qkv(Binder& bind, const ModelSpec& spec, const std::string& prefix, LayerWeights& w) {
  const bool bias = spec.arch.qkv_bias;
  if (!bind.has(prefix + "attn_qkv.weight")) {
    w.q = bind.linear(prefix + "attn_q", spec.q_dim(), spec.d_model, bias);
    w.k = bind.linear(prefix + "attn_k", spec.kv_dim(), spec.d_model, bias);
    w.v = bind.linear(prefix + "attn_v", spec.kv_dim(), spec.d_model, bias);
    return;
  }
  const Linear all = bind.linear(prefix + "attn_qkv", spec.q_dim() + 2 * spec.kv_dim(), spec.d_model, bias);
  const auto rows = [&all](int64_t begin, int64_t n) {
    return Linear{{all.weight.row(begin), all.weight.dtype, n, all.weight.n_cols},
                  all.bias == nullptr ? nullptr : all.bias + begin};
  };
  w.q = rows(0, spec.q_dim());
  w.k = rows(spec.q_dim(), spec.kv_dim());
  w.v = rows(spec.q_dim() + spec.kv_dim(), spec.kv_dim());
}

/// Binds the neuron-major down rows that PowerInfer's files have instead of the down projection, and the
/// predictor if the layer has one.
void bind_powerinfer(Binder& bind, const ModelSpec& spec, const std::string& prefix, LayerWeights& w) {
  w.down_rows = {bind.matrix(prefix + "ffn_down_t.weight", spec.d_ff, spec.d_model),
                 bind.optional_vector(prefix + "ffn_down_t.bias", spec.d_model)};
  const std::string in = prefix + "fc1.weight", out = prefix + "fc2.weight";
  if (!bind.has(in) && !bind.has(out)) return;
  const int64_t rank = bind.rows_of(in);
  // Scratch is sized for widths up to the FFN's; a predictor wider than that would save nothing.
  if (rank > spec.d_ff) {
    bind.fail_tensor(in, " has " + std::to_string(rank) +
                             " rows, expected a rank of at most the FFN's width, " +
                             std::to_string(spec.d_ff) + "; the file is damaged");
  }
  w.predictor_in = bind.matrix(in, rank, spec.d_model);
  w.predictor_out = bind.matrix(out, spec.d_ff, rank);
}

LayerWeights bind_layer(Binder& bind, const ModelSpec& spec, int layer) {
  const std::string prefix = "blk." + std::to_string(layer) + ".";
  const Architecture& arch = spec.arch;
  LayerWeights w;
  bind_norms(bind, spec, prefix, w);
  bind_qkv(bind, spec, prefix, w);
  if (arch.qk_norm) {
    w.q_norm = bind.vector(prefix + "attn_q_norm.weight", spec.head_dim);
    w.k_norm = bind.vector(prefix + "attn_k_norm.weight", spec.head_dim);
  }
  w.attention_out = bind.linear(prefix + "attn_output", spec.d_model, spec.q_dim());
  if (spec.gated) w.gate = bind.linear(prefix + "ffn_gate", spec.d_ff, spec.d_model);
  w.up = bind.linear(prefix + "ffn_up", spec.d_ff, spec.d_model);
  if (spec.powerinfer) {
    bind_powerinfer(bind, spec, prefix, w);
  } else {
    w.down = bind.linear(prefix + "ffn_down", spec.d_model, spec.d_ff);
  }
  return w;
}

void require_all_predictors_or_none(const ModelFile& file, const Weights& weights) {
  for (size_t i = 1; i < weights.layers.size(); ++i) {
    const bool has = static_cast<bool>(weights.layers[i].predictor_in);
    if (has == weights.has_predictors()) continue;
    const size_t with = has ? i : 0, without = has ? 0 : i;
    fail(file, "blk." + std::to_string(without) + ".fc1.weight",
         " is missing, but layer " + std::to_string(with) +
             " has a predictor, expected one in every layer or none in any; the file is incomplete: convert "
             "or "
             "download it again");
  }
}

}  // namespace

namespace {

Linear linear_on(Memory& memory, const Linear& linear) {
  return {memory.resident(linear.weight), memory.resident(linear.bias, linear.weight.n_rows)};
}

NormWeights norm_on(Memory& memory, const NormWeights& norm, const ModelSpec& spec) {
  return {memory.resident(norm.scale, spec.d_model), memory.resident(norm.bias, spec.d_model)};
}

}  // namespace

LayerWeights Weights::layer_on(Memory& memory, const ModelSpec& spec, int layer, bool predictor) const {
  LayerWeights w = layers[static_cast<size_t>(layer)];
  w.attention_norm = norm_on(memory, w.attention_norm, spec);
  w.ffn_norm = norm_on(memory, w.ffn_norm, spec);
  w.q_norm = memory.resident(w.q_norm, spec.head_dim);
  w.k_norm = memory.resident(w.k_norm, spec.head_dim);
  for (Linear* part : {&w.q, &w.k, &w.v, &w.attention_out}) *part = linear_on(memory, *part);
  if (predictor) w.predictor_in = memory.resident(w.predictor_in);
  return w;
}

Linear Weights::output_on(Memory& memory) const { return linear_on(memory, output); }

NormWeights Weights::output_norm_on(Memory& memory, const ModelSpec& spec) const {
  return norm_on(memory, output_norm, spec);
}

Weights Weights::placed(const Devices& devices, const ModelSpec& spec, bool predictors) const {
  Weights out;
  out.token_embedding = token_embedding;
  out.position_embedding = position_embedding;
  out.layers = layers;
  out.output_norm = output_norm;
  out.output = output;
  out.rope_divisors = rope_divisors;
  if (devices.device() == nullptr) return out;
  Memory& memory = devices.device()->backend();
  for (int i = 0; i < spec.n_layers; ++i) {
    if (devices.on_device(i)) out.layers[static_cast<size_t>(i)] = layer_on(memory, spec, i, predictors);
  }
  out.output_norm = output_norm_on(memory, spec);
  out.output = output_on(memory);
  out.embeds_on_device = tied() && devices.on_device(0) && !position_embedding;
  if (out.embeds_on_device) out.token_embedding = out.output.weight;
  return out;
}

size_t Weights::bytes_per_token() const {
  size_t total = output.weight.bytes();
  for (const LayerWeights& layer : layers) {
    for (const Linear* linear : {&layer.q, &layer.k, &layer.v, &layer.attention_out, &layer.gate, &layer.up,
                                 &layer.down, &layer.down_rows}) {
      total += linear->weight.bytes();
    }
  }
  return total;
}

Weights bind_weights(const ModelFile& file, const ModelSpec& spec) {
  Binder bind(file);
  Weights weights;
  weights.token_embedding = bind.matrix("token_embd.weight", spec.n_vocab, spec.d_model);
  if (spec.arch.position_offset) {
    const int64_t n_rows =
        bind.rows_of("position_embd.weight");  // read_model_spec has held it to the context
    weights.position_embedding = bind.matrix("position_embd.weight", n_rows, spec.d_model);
  }
  if (bind.has("rope_freqs.weight")) {
    const int n_pairs = spec.rope.n_rot / 2;
    const float* divisors = bind.vector("rope_freqs.weight", n_pairs);
    weights.rope_divisors.assign(divisors, divisors + n_pairs);
    // A divisor of zero would turn positions into infinities; NaN fails the comparison too.
    if (!std::all_of(divisors, divisors + n_pairs, [](float d) { return d > 0.0f && d < 1e6f; })) {
      fail(file, "rope_freqs.weight",
           " holds a divisor that is not a positive number below 1e6; the file is damaged");
    }
  }
  weights.layers.reserve(static_cast<size_t>(spec.n_layers));
  for (int layer = 0; layer < spec.n_layers; ++layer) weights.layers.push_back(bind_layer(bind, spec, layer));
  require_all_predictors_or_none(file, weights);
  weights.output_norm = bind.norm("output_norm", spec.d_model, spec.arch.norm);
  const bool tied = !bind.has("output.weight");
  weights.output =
      tied ? Linear{weights.token_embedding, nullptr} : bind.linear("output", spec.n_vocab, spec.d_model);
  bind.refuse_unused(spec);
  weights.vectors = bind.take_vectors();
  return weights;
}

}  // namespace hearth
