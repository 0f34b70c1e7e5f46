// Describes models from files and from shapes, and computes the inputs of plans.
#include "profiler/plan/planned_model.h"

#include <sys/mman.h>

#include <algorithm>
#include <cctype>
#include <new>
#include <stdexcept>
#include <variant>

#include "engine/forward/nextn_pass.h"
#include "engine/model/ffn_activation.h"
#include "engine/model/predictor_file.h"
#include "engine/resolved_load.h"
#include "kernels/base/file_error.h"
#include "kernels/cuda/ops/device_types.h"

namespace hearth {
namespace {

/// Reserves addresses that read as zeros and take no memory. They give the views of a layout distinct
/// addresses.
class AddressSpace final : public Memory {
 public:
  Buffer allocate(size_t bytes) override {
    if (bytes == 0) return {};
    void* begin = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (begin == MAP_FAILED) throw std::bad_alloc();
    return {begin, bytes, [](void* data, size_t n) { munmap(data, n); }};
  }
};

class ShapeMaker {
 public:
  ShapeMaker(const ModelShape& shape, DType type)
      : shape_(shape), type_(type), zeros_(AddressSpace().allocate(kMostBytes)) {}

  ModelSpec spec(std::string_view ffn_activation) const {
    ModelSpec spec;
    for (const Architecture& arch : architectures()) {
      if (arch.name == shape_.architecture) spec.arch = arch;
    }
    spec.name = shape_.name;
    spec.n_layers = shape_.n_layers;
    spec.d_model = shape_.d_model;
    spec.d_ff = shape_.d_ff;
    spec.n_heads = shape_.n_heads;
    spec.n_kv_heads = shape_.n_kv_heads;
    spec.head_dim = shape_.head_dim();
    spec.n_vocab = shape_.n_vocab;
    spec.context_train = shape_.context_tokens;
    spec.gated = spec.arch.gated;
    spec.rope.n_rot = shape_.n_rot > 0 ? shape_.n_rot : spec.head_dim;
    spec.recurrent = shape_.recurrent;
    // If a shape has a predictor rank, PowerInfer publishes model files of this shape with predictors. In
    // these files, the activation differs from the architecture's original one.
    spec.activation = shape_.predictor_rank > 0 ? *spec.arch.powerinfer_activation : spec.arch.activation;
    if (!ffn_activation.empty()) {
      const std::optional<FfnActivation> said = parse_ffn_activation(ffn_activation);
      if (!said) {
        throw std::invalid_argument("The FFN activation \"" + std::string(ffn_activation) +
                                    "\" is not known, expected relu, drelu, fatrelu:T, relu2, silu or gelu.");
      }
      spec.activation = *said;
    }
    spec.powerinfer = spec.predictors = shape_.predictor_rank > 0 && spec.has_zero_neurons();
    spec.mixture = {.n_experts = shape_.n_experts,
                    .n_used = shape_.n_used,
                    .d_expert = shape_.d_expert,
                    .d_shared = shape_.d_shared};
    spec.d_layer_embedding = shape_.d_layer_embedding;
    for (int i = 0; i < shape_.n_layers; ++i) spec.layers.push_back(layer_spec(spec.arch.window, i));
    return spec;
  }

  /// Returns views whose addresses are within zeros().
  Weights weights(const ModelSpec& spec) {
    Weights w;
    w.token_embedding = matrix(shape_.n_vocab, shape_.d_model);
    if (spec.arch.position_offset) {
      w.position_embedding = matrix(*spec.arch.position_offset + shape_.context_tokens, shape_.d_model);
    }
    w.output_norm = norm(spec);
    w.output = linear(shape_.n_vocab, shape_.d_model, false);
    const bool tied = shape_.tied || spec.arch.name == "opt";
    if (tied) w.output.weight.data = w.token_embedding.data;
    if (const int64_t n_all = int64_t{shape_.n_layers} * shape_.d_layer_embedding; n_all > 0) {
      w.layer_embeddings = matrix(shape_.n_vocab, n_all);
      w.layer_projection = {linear(n_all, shape_.d_model, false), vector(shape_.d_layer_embedding)};
    }
    for (int i = 0; i < shape_.n_layers; ++i) w.layers.push_back(layer(spec, i));
    return w;
  }
  Buffer zeros() && { return std::move(zeros_); }

 private:
  LayerSpec layer_spec(const WindowPattern& pattern, int i) const {
    const bool full = shape_.d_head_window > 0 ? shape_.is_full(i)
                                               : pattern.period > 0 && i % pattern.period == pattern.full;
    const bool has_ffn = shape_.has_ffn(i), recurrent = shape_.is_recurrent(i);
    const bool two_heads = shape_.d_head_window > 0;
    return {.window = full || recurrent || !shape_.mixes(i) ? 0 : shape_.window,
            .experts = shape_.has_experts() && has_ffn && i >= shape_.n_dense,
            .recurrent = recurrent,
            .mixes = shape_.mixes(i),
            .has_ffn = has_ffn,
            .n_kv_heads = two_heads && full ? shape_.n_kv_heads_full : 0,
            .head_dim = two_heads && !full ? shape_.d_head_window : 0,
            .kv_source = shape_.kv_source(i)};
  }

  /// An upper bound on the bytes of weights of any model that fits in a machine's memory.
  static constexpr size_t kMostBytes = size_t{1} << 42;

  const std::byte* take(size_t bytes) {
    const auto* const address = reinterpret_cast<const std::byte*>(zeros_.floats()) + taken_;
    taken_ += piece_bytes(bytes);
    if (taken_ > kMostBytes) throw std::invalid_argument("The shape's weights exceed all addresses.");
    return address;
  }
  const float* vector(int64_t n) {
    return reinterpret_cast<const float*>(take(static_cast<size_t>(n) * sizeof(float)));
  }

  Matrix matrix(int64_t n_rows, int64_t n_cols) { return matrix(n_rows, n_cols, type_); }
  Matrix matrix(int64_t n_rows, int64_t n_cols, DType type) {
    const int block = dtype_info(type).block_elems;
    if (n_cols % block != 0) {
      throw std::invalid_argument("The shape " + std::string(shape_.name) + " has rows of " +
                                  std::to_string(n_cols) + " weights, which are not whole blocks of " +
                                  std::string(dtype_info(type).name) + ", " + std::to_string(block) +
                                  " each; take another type.");
    }
    Matrix made{nullptr, type, n_rows, n_cols};
    made.data = take(static_cast<size_t>(n_rows) * row_bytes(type, n_cols));
    return made;
  }
  Linear linear(int64_t n_rows, int64_t n_cols, bool bias) {
    return {matrix(n_rows, n_cols), bias ? vector(n_rows) : nullptr};
  }
  NormWeights norm(const ModelSpec& spec) {
    return {vector(spec.d_model), spec.arch.norm == NormKind::kLayer ? vector(spec.d_model) : nullptr};
  }
  DeltaWeights delta(const RecurrentShape& shape) {
    const int64_t d = shape_.d_model;
    const bool mamba = shape.kind == RecurrentKind::kMamba2;
    DeltaWeights w;
    w.qkv = linear(shape.conv_dim(), d, false);
    w.z = linear(shape.value_dim(), d, false);
    if (!mamba) w.beta = linear(shape.n_v_heads, d, false);
    w.alpha = linear(shape.n_v_heads, d, false);
    w.out = linear(d, shape.value_dim(), false);
    w.taps = vector(shape.n_taps * shape.conv_dim());
    w.dt = vector(shape.n_v_heads);
    w.a = vector(shape.n_v_heads);
    w.norm = vector(mamba ? shape.value_dim() : shape.head_dim);
    if (!mamba) return w;
    w.conv_bias = vector(shape.conv_dim());
    w.skip = vector(shape.n_v_heads);
    return w;
  }
  /// shared_has_gate: the shared expert is a part of the mixture.
  MixtureWeights mixture(bool shared_has_gate) {
    const int64_t d = shape_.d_model, width = shape_.d_expert;
    MixtureWeights w;
    const DType type = shape_.mxfp4_experts ? DType::kMXFP4 : type_;
    w.router = {matrix(shape_.n_experts, d, DType::kF32), nullptr};
    for (int i = 0; i < shape_.n_experts; ++i) {
      Expert expert;
      if (shape_.gated()) expert.gate = matrix(width, d, type);
      expert.up = matrix(width, d, type);
      expert.down = matrix(d, width, type);
      w.experts.push_back(expert);
    }
    if (shared_has_gate) {
      w.shared_gate = {matrix(1, d, DType::kF32), nullptr};
      w.shared.push_back({.gate = matrix(shape_.d_shared, d),
                          .up = matrix(shape_.d_shared, d),
                          .down = matrix(d, shape_.d_shared)});
    }
    return w;
  }
  void add_beside_dense(MixtureWeights& w) {
    w.weight_scales = vector(shape_.n_experts);
    for (const float** norm : {&w.router_norm, &w.experts_norm, &w.experts_post_norm, &w.dense_post_norm})
      *norm = vector(shape_.d_model);
  }
  /// Returns the width of the layer's FFN beside its experts, if it has any; 0: there is no such FFN.
  int64_t width_beside(const ModelSpec& spec, bool experts) const {
    if (!experts || spec.arch.mixture.beside_dense) return shape_.d_ff;
    return spec.arch.mixture.shared_has_gate ? 0 : shape_.d_shared;
  }
  LayerWeights layer(const ModelSpec& spec, int index) {
    const LayerSpec facts = spec.layer(index);
    const bool experts = facts.experts, gated_shared = experts && spec.arch.mixture.shared_has_gate;
    const int64_t d = shape_.d_model, ff = width_beside(spec, experts);
    const bool bias = spec.arch.qkv_bias || spec.arch.name == "opt";
    LayerWeights w;
    if (facts.mixes) w.attention_norm = norm(spec);
    if (facts.has_ffn) w.ffn_norm = norm(spec);
    if (spec.arch.norms == NormPlace::kBoth) {
      w.attention_post_norm = norm(spec);
      w.ffn_post_norm = norm(spec);
    }
    if (facts.recurrent) {
      w.delta = delta(spec.recurrent);
    } else if (facts.mixes) {
      const bool own_kv = spec.has_own_kv(index);
      w.q = linear(spec.projected_q_dim(index), d, bias);
      if (own_kv) w.k = linear(spec.kv_dim(index), d, bias);
      if (own_kv && (facts.window > 0 || !shape_.values_from_keys)) w.v = linear(spec.kv_dim(index), d, bias);
      w.attention_out = linear(d, spec.q_dim(index), spec.arch.name == "opt");
    }
    if (!facts.recurrent && facts.mixes && spec.arch.qk_norm != QkNorm::kNone &&
        !spec.arch.qk_norm_optional) {
      const NormShape of_q = spec.qk_norm_shape(spec.heads_of(index), index);
      const NormShape of_k = spec.qk_norm_shape(spec.kv_heads_of(index), index);
      w.q_norm = vector(int64_t{of_q.n_rows} * of_q.n_cols);
      if (spec.has_own_kv(index)) w.k_norm = vector(int64_t{of_k.n_rows} * of_k.n_cols);
    }
    if (spec.d_layer_embedding > 0) {
      w.embedding_gate = linear(spec.d_layer_embedding, d, false);
      w.embedding_projection = linear(d, spec.d_layer_embedding, false);
      w.embedding_post_norm = norm(spec);
    }
    if (experts) w.mixture = mixture(gated_shared);
    if (experts && spec.arch.mixture.beside_dense) add_beside_dense(w.mixture);
    if (ff == 0 || !facts.has_ffn) return w;
    if (spec.gated) w.gate = linear(ff, d, false);
    w.up = linear(ff, d, spec.arch.name == "opt");
    if (!spec.powerinfer) {
      w.down = linear(d, ff, false);
      return w;
    }
    w.down_rows = linear(ff, d, spec.arch.name == "opt");
    w.predictor_in = matrix(shape_.predictor_rank, d);
    w.predictor_out = matrix(ff, shape_.predictor_rank);
    return w;
  }

  const ModelShape& shape_;
  const DType type_;
  Buffer zeros_;
  size_t taken_ = 0;
};

/// Visits all matrices but those of experts.
template <class Visit>
void each_matrix(Weights& w, const Visit& visit) {
  visit(w.token_embedding);
  visit(w.position_embedding);
  visit(w.layer_embeddings);
  visit(w.layer_projection.linear.weight);
  visit(w.output.weight);
  for (std::vector<Linear>* of_streams : {&w.stream_matrices.starts, &w.stream_matrices.ends}) {
    for (Linear& one : *of_streams) visit(one.weight);
  }
  for (LayerWeights& layer : w.layers) {
    LatentWeights& latent = layer.latent;
    DeltaWeights& delta = layer.delta;
    ShortConvWeights& conv = layer.short_conv;
    for (Matrix* m : {&layer.q.weight,
                      &layer.k.weight,
                      &layer.v.weight,
                      &layer.attention_out.weight,
                      &latent.q_a.weight,
                      &latent.kv_a.weight,
                      &latent.keys,
                      &latent.values,
                      &delta.qkv.weight,
                      &delta.z.weight,
                      &delta.beta.weight,
                      &delta.alpha.weight,
                      &delta.out.weight,
                      &delta.q.weight,
                      &delta.k.weight,
                      &delta.v.weight,
                      &delta.short_z.weight,
                      &delta.short_alpha.weight,
                      &conv.input_gate.weight,
                      &conv.output_gate.weight,
                      &conv.input.weight,
                      &conv.out.weight,
                      &layer.attention_gate.weight,
                      &layer.embedding_gate.weight,
                      &layer.embedding_projection.weight,
                      &layer.streams.router.weight,
                      &layer.streams.predict.weight,
                      &layer.streams.correct.weight,
                      &layer.laurel.left.weight,
                      &layer.laurel.right.weight,
                      &layer.gate.weight,
                      &layer.up.weight,
                      &layer.down.weight,
                      &layer.down_rows.weight,
                      &layer.predictor_in,
                      &layer.predictor_out}) {
      visit(*m);
    }
  }
}

double expert_bytes(const MixtureWeights& mixture) {
  double bytes = static_cast<double>(mixture.router.weight.bytes() + mixture.shared_gate.weight.bytes());
  for (const std::vector<Expert>* experts : {&mixture.experts, &mixture.shared}) {
    for (const Expert& expert : *experts) {
      bytes += static_cast<double>(expert.gate.bytes() + expert.up.bytes() + expert.down.bytes());
    }
  }
  return bytes;
}

/// Returns views of the weights, without ownership.
Weights views_of(const Weights& from) {
  Weights w;
  w.token_embedding = from.token_embedding;
  w.position_embedding = from.position_embedding;
  w.layer_embeddings = from.layer_embeddings;
  w.layer_projection = from.layer_projection;
  w.stream_matrices = from.stream_matrices;
  w.layers = from.layers;
  w.output_norm = from.output_norm;
  w.output = from.output;
  w.rope_divisors = from.rope_divisors;
  return w;
}

}  // namespace

std::vector<Sparsity> PlannedModel::modes() const {
  if (spec.has_experts()) return {Sparsity::kDense};
  std::vector<Sparsity> modes;
  if (spec.has_zero_neurons()) modes.push_back(Sparsity::kExact);
  if (weights.has_predictors()) modes.push_back(Sparsity::kPredicted);
  modes.push_back(Sparsity::kDense);
  return modes;
}

double PlannedModel::weight_bytes() const {
  double bytes = 0;
  Weights w = views_of(weights);
  each_matrix(w, [&](const Matrix& m) {
    if (m) bytes += static_cast<double>(m.bytes());
  });
  for (const LayerWeights& layer : w.layers) {
    bytes += expert_bytes(layer.mixture);
    // Older files store keys and values in one matrix, whose rows were counted twice.
    const LatentWeights& latent = layer.latent;
    if (latent.first_value > 0)
      bytes -= static_cast<double>(latent.values.bytes()) * static_cast<double>(latent.first_value) /
               static_cast<double>(latent.rows_apart);
  }
  return weights.tied() ? bytes - static_cast<double>(weights.output.weight.bytes()) : bytes;
}

DType PlannedModel::main_type() const {
  const LayerWeights& last = weights.layers.back();
  return last.mixture.experts.empty() ? last.up.weight.dtype : last.mixture.experts.front().up.dtype;
}

std::optional<DType> PlannedModel::cpu_only_type() const {
  std::optional<DType> type;
  Weights w = views_of(weights);
  each_matrix(w, [&](const Matrix& m) {
    if (m && !cuda::device_has(m.dtype)) type = m.dtype;
  });
  return type;
}

PlannedModel model_of_file(const std::filesystem::path& path, std::string_view ffn_activation) {
  ModelFile file = ModelFile::open(path);
  ModelSpec spec = read_model_spec(file, ffn_activation);
  if (const std::string_view kind = spec.cpu_only_kind(); !kind.empty()) {
    file_error::fail(
        file_error::file_label(path.string()),
        "it is " + std::string(kind) + ", which hearthd runs on the CPU only, so there is nothing to plan");
  }
  Weights weights = bind_weights(file, spec);
  std::optional<ModelFile> predictors;
  if (spec.has_zero_neurons() && !spec.has_experts()) predictors = open_predictor_file(file, spec);
  if (predictors) bind_predictors(*predictors, spec, weights);
  auto nextn = bind_nextn(file, spec, weights);
  auto* const layer = std::get_if<0>(&nextn);
  return {.name = path.filename().string(),
          .file = std::move(file),
          .spec = std::move(spec),
          .weights = std::move(weights),
          .predictors = std::move(predictors),
          .nextn = layer != nullptr ? std::move(*layer) : nullptr};
}

PlannedModel model_of_shape(const ModelShape& shape, DType type, std::string_view ffn_activation) {
  ShapeMaker maker(shape, type);
  ModelSpec spec = maker.spec(ffn_activation);
  Weights weights = maker.weights(spec);
  return {.name = std::string(shape.name),
          .file = std::nullopt,
          .spec = std::move(spec),
          .weights = std::move(weights),
          .predictors = {},
          .zeros = std::move(maker).zeros()};
}

std::optional<PlannedModel> model_of_type(const PlannedModel& model, DType type) {
  PlannedModel other{model.name, std::nullopt, model.spec, views_of(model.weights)};
  const int block = dtype_info(type).block_elems;
  bool whole = true;
  each_matrix(other.weights, [&](Matrix& m) {
    if (!m) return;
    whole = whole && m.n_cols % block == 0;
    m.dtype = type;
  });
  if (!whole) return std::nullopt;
  return other;
}

std::optional<DType> dtype_of_name(std::string_view name) {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
  };
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto type = static_cast<DType>(i);
    if (std::ranges::equal(dtype_info(type).name, name, same)) return type;
  }
  return std::nullopt;
}

std::vector<std::string> dtype_names() {
  std::vector<std::string> names;
  for (int i = 0; i < kDTypeCount; ++i) {
    std::string name(dtype_info(static_cast<DType>(i)).name);
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    names.push_back(name);
  }
  return names;
}

PassBounds PlanLoad::bounds() const {
  PassBounds bounds = load_bounds(context_tokens, n_slots, prefill_chunk);
  bounds.library = library;
  bounds.library_decodes = library_decodes;
  return bounds;
}

KvBlockCounts kv_block_counts(const ModelSpec& spec, const PlanLoad& load, int n_contexts) {
  return kv_block_counts(spec, load.context_tokens, n_contexts, load.prefill_chunk, load.kv_type);
}

PlanBasis::PlanBasis(const PlannedModel& model, Sparsity mode, const PlanLoad& load,
                     std::optional<NextnShare> nextn_share) {
  AddressSpace nowhere;
  const BundleParts parts = bundle_parts(mode, mode == Sparsity::kExact);
  host_ =
      std::make_unique<NeuronLayout>(NeuronLayout::in_bundles(model.spec, model.weights, parts, {}, nowhere));
  inputs_ = std::make_unique<PlanInputs>(PlanInputs{
      .spec = model.spec,
      .weights = model.weights,
      .host = *host_,
      .mode = mode,
      .bounds = model.nextn ? bounds_with_nextn(load.bounds(), *model.nextn) : load.bounds(),
      .kv_counts = kv_block_counts(model.spec, load, load.contexts_to_plan()),
      .experts = load.experts,
      .nextn = model.nextn.get(),
      .nextn_share =
          nextn_share.value_or(model.spec.has_experts() ? NextnShare::kAllButExperts : NextnShare::kWhole),
  });
}

}  // namespace hearth
