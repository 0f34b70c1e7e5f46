// The description of one model from its file: shape, rotary embedding, layers.
//
// Facts that all models of an architecture share are in architecture.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/architecture.h"
#include "engine/model/model_file.h"
#include "engine/model/pooling.h"
#include "kernels/backend.h"
#include "kernels/indexer.h"
#include "kernels/recurrent.h"

namespace hearth {

enum class RopeScaling : uint8_t { kNone, kLinear, kYarn };

/// Rotary embedding as stored in the file (Su et al. 2021; YaRN: Peng et al. 2023). Llama-3 and Phi-3 store
/// their scaling as tensors of divisors (rope_freqs, rope_factors_long and _short), not as keys.
struct RopeSpec {
  int n_rot = 0;  // rotated dimensions of a head
  double base = 10000.0;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;                       // factor by which the context is extended
  int original_context = 0;                  // context before extension (yarn)
  double attn_factor = 1.0;                  // extra magnitude
  double beta_fast = 32.0, beta_slow = 1.0;  // ends of YaRN's ramp, in rotations over the original context
  bool yarn_rounds = true;                   // the ramp's ends are rounded to whole dimensions
  bool yarn_tempers = true;                  // YaRN's temperature multiplies cos and sin
};

/// Properties that differ between layers.
struct LayerSpec {
  int window = 0;           // positions that a token sees, including its own; 0: no limit. In encoders, it
                            // sees as many to either side
  bool turns = true;        // a rotary embedding is applied
  bool local_rope = false;  // the layer uses ModelSpec::local_rope
  bool experts = false;     // the FFN is a mixture of experts
  bool recurrent = false;   // ModelSpec::recurrent instead of attention; window and the rotary embedding do
                            // not apply
  bool mixes = true;        // attention or a recurrence; false: the layer is an FFN alone
  bool has_ffn = true;      // false: the layer has no FFN
  bool indexes = false;     // the layer has an indexer, see ModelSpec::indexer
  int n_heads = 0;          // 0: ModelSpec::n_heads
  int n_kv_heads = 0;       // 0: ModelSpec::n_kv_heads
  int head_dim = 0;         // 0: ModelSpec::head_dim
  int d_ff = 0;             // 0: ModelSpec::d_ff
  int kv_source = -1;       // the earlier layer whose keys and values this layer reads; -1: it has its own
  /// The activations of the dense FFN or shared expert, and of the experts that a router chooses. nullopt:
  /// ModelSpec::activation.
  std::optional<FfnActivation> ffn_activation = {}, expert_activation = {};
  /// If set, the FFN changes a token's gates before the activation: it subtracts their mean plus gate_cut
  /// times their standard deviation, and sets negative results to zero.
  std::optional<float> gate_cut = {};

  bool operator==(const LayerSpec&) const = default;
};

/// The shape of a norm's weights. The norm applies to rows of n_cols numbers. Row i is multiplied by row i %
/// n_rows of the weights.
struct NormShape {
  int n_rows = 1, n_cols = 0;
};

/// The experts of a mixture.
struct MixtureSpec {
  int n_experts = 0, n_used = 0;  // experts per layer, and experts used per token; 0: no experts
  int d_expert = 0;               // neurons per expert
  int d_latent = 0;               // length of the vectors that experts read and write; 0: d_model
  int d_shared = 0;               // neurons of the shared expert, which every token uses; 0: no shared expert
  RouterScore score = RouterScore::kSoftmax;
  int n_groups = 1, n_groups_used = 1;
  bool renormalize = false;
  float scale = 1.0f;
};

/// Latent attention, in which the cache holds one latent per position for the keys and values of all heads
/// (multi-head latent attention: DeepSeek-V2, 2024). A head of a query has d_nope numbers that are not
/// rotated, followed by d_rope numbers that are rotated.
struct LatentSpec {
  int kv_rank = 0;  // size of the latent; 0: the model has no latent attention
  int q_rank = 0;   // size of the queries' latent; 0: queries are computed from the layer's input
  int d_nope = 0, d_rope = 0;
  int d_value = 0;  // size of a head's values

  explicit operator bool() const { return kv_rank > 0; }
};

/// One model's shape.
struct ModelSpec {
  Architecture arch;
  std::string name;  // general.name, or empty
  int n_layers = 0;
  int n_unused_layers = 0;  // further layers in the file, which predict later tokens and are not run
  int d_model = 0;
  /// Neurons of the widest layer without experts; if there is none, d_expert for files without the key.
  int d_ff = 0;
  int n_heads = 0, n_kv_heads = 0;  // of the layer that has most
  /// The size of a head's queries and keys in attention; with a latent: kv_rank + d_rope. Layers may differ
  /// in this size and in their numbers of heads, so code that computes a layer must ask head_dim_of(),
  /// heads_of() and kv_heads_of().
  int head_dim = 0;
  /// The size of a head's values if it is smaller than that of its keys; 0: both are equal. The cache pads
  /// values with zeros, so that kernels handle only one size.
  int d_value = 0;
  int n_vocab = 0;
  int context_train = 0;  // longest context in training, in tokens
  float norm_eps = 0;
  RopeSpec rope;
  RopeSpec local_rope;  // for layers with LayerSpec::local_rope
  float embedding_scale = 1.0f,
        residual_scale = 1.0f;   // factors for embeddings, and for outputs added to the residual stream
  float attention_scale = 0.0f;  // scale of scores; 0: 1 / sqrt(head_dim)
  float value_scale = 1.0f;      // factor for attention's values
  float attention_cap = 0.0f, logit_cap = 0.0f;  // soft caps, cap * tanh(x / cap); 0: none
  float logit_scale = 1.0f;                      // factor for logits, applied before the cap
  /// A query at position p is multiplied by 1 + query_growth * ln(1 + floor((p + arch.growth_from) /
  /// growth_span)). 0: queries are not multiplied.
  float query_growth = 0.0f;
  int growth_span = 1;
  LatentSpec latent;
  IndexerShape indexer;                  // chooses the positions that attention reads; false: it reads all
  RecurrentShape recurrent;              // of all recurrent layers; false: there are none
  int n_streams = 1, active_stream = 0;  // see ResidualStreams; layers compute the active stream
  int d_layer_embedding = 0;             // size of a token's embedding for each layer; 0: there is none
  MixtureSpec mixture;
  std::vector<LayerSpec> layers;  // [n_layers], or empty: all are LayerSpec{}
  FfnActivation activation;
  Pooling pooling = Pooling::kLast;  // default pooling of embeddings; pooling before the head that ranks
  /// Scores that the model's head gives a pair of texts; 0: the model does not rank. Two scores are those of
  /// the answers yes and no.
  int n_scores = 0;
  /// Separators between the texts of a pair. RoBERTa's tokenizers put two there, and models of this family
  /// have one token type.
  int n_separators = 1;
  int d_head = 0;  // width between two matrices of the head that changes embeddings; 0: there is no such head
  bool gated = true;
  bool powerinfer = false;     // the file is PowerInfer's
  bool predictors = false;     // layers may have predictors, in this file or in one beside the model
  float sparse_threshold = 0;  // default: a neuron is proposed if its predictor's logit reaches this
                               // threshold

  int head_dim_of(int index) const {
    const int own = layer(index).head_dim;
    return own > 0 ? own : head_dim;
  }
  int heads_of(int index) const {
    const int own = layer(index).n_heads;
    return own > 0 ? own : n_heads;
  }
  int kv_heads_of(int index) const {
    const int own = layer(index).n_kv_heads;
    return own > 0 ? own : n_kv_heads;
  }
  int q_dim(int index) const { return heads_of(index) * head_dim_of(index); }
  int kv_dim(int index) const { return kv_heads_of(index) * head_dim_of(index); }
  /// The size of all heads' projected values.
  int value_dim(int index) const { return kv_heads_of(index) * (d_value > 0 ? d_value : head_dim_of(index)); }
  /// The size of all heads' projected queries (projected_q_dim), including their gates, and the size of the
  /// input of attention's last projection (attended_dim).
  int projected_q_dim(int index) const { return projected_q_dim_of(q_dim(index)); }
  int attended_dim(int index) const {
    return d_value > 0 ? heads_of(index) * d_value : attended_dim_of(q_dim(index));
  }
  /// The sizes above in the layer where each is widest.
  int widest_head_dim() const;
  int q_dim() const { return n_heads * widest_head_dim(); }
  int kv_dim() const;
  int projected_q_dim() const { return projected_q_dim_of(q_dim()); }
  int attended_dim() const { return d_value > 0 ? n_heads * d_value : attended_dim_of(q_dim()); }
  bool has_experts() const { return mixture.n_experts > 0; }
  /// Whether some FFN neurons are zero for a token, and neurons can be handled one by one: counted, predicted
  /// and skipped. Zeros inside experts can be skipped too (activation.has_zeros()), but experts' neurons are
  /// neither counted one by one nor predicted.
  bool has_zero_neurons() const { return activation.has_zeros() && !has_experts() && has_equal_ffns(); }
  /// Whether the layer's queries and keys are normed.
  bool norms_qk(int index) const {
    const int none = arch.experts_without_qk_norm;
    return arch.qk_norm != QkNorm::kNone && (!arch.qk_norm_plain || layer(index).turns) &&
           (none == 0 || mixture.n_experts != none);
  }
  /// Whether a layer has attention.
  bool attends(int index) const {
    return layer(index).mixes && (!layer(index).recurrent || arch.recurs_beside_attention);
  }
  LayerSpec layer(int i) const { return layers.empty() ? LayerSpec{} : layers[static_cast<size_t>(i)]; }
  /// Returns the window size of the layers that have a window, which all have the same size; 0 if no layer
  /// has a window.
  int window() const;
  /// Whether the output of attention and the FFN is normed or scaled before it is added to the residual
  /// stream.
  bool changes_branches() const {
    return arch.norms == NormPlace::kAfter || arch.norms == NormPlace::kBoth || residual_scale != 1.0f;
  }
  int d_ff_of(int index) const {
    const int own = layer(index).d_ff;
    return own > 0 ? own : d_ff;
  }
  /// Whether all layers have FFNs of d_ff neurons that do not depend on each other. If not, the model has no
  /// modes that handle neurons one by one.
  bool has_equal_ffns() const {
    return std::ranges::all_of(layers, [this](const LayerSpec& one) {
      return one.has_ffn && (one.d_ff == 0 || one.d_ff == d_ff) && !one.gate_cut;
    });
  }
  bool has_own_kv(int index) const { return layer(index).kv_source < 0; }
  /// Whether all layers have their own keys and values.
  bool all_have_own_kv() const {
    return std::ranges::all_of(layers, [](const LayerSpec& one) { return one.kv_source < 0; });
  }
  /// The last layers may have no keys and values of their own. Returns the first of these layers; n_layers if
  /// there are none. From this layer on, only tokens whose logits or hidden states are wanted matter.
  int first_layer_without_kv() const {
    int first = n_layers;
    while (first > 0 && !has_own_kv(first - 1)) --first;
    return first;
  }
  /// Whether one device must compute all layers. This is so if a layer reads keys and values of other layers,
  /// if all layers read embeddings that are computed once a step (LayerEmbeddings), or if all layers change
  /// several streams (ResidualStreams).
  bool stays_whole() const { return !all_have_own_kv() || d_layer_embedding > 0 || n_streams > 1; }
  /// Whether attention over a context of so many positions needs the indexer.
  bool needs_indexer(int context_tokens) const { return indexer && context_tokens > indexer.top_k; }
  /// Returns the longest context that does not need the indexer.
  int unindexed_context() const { return indexer ? std::min(context_train, indexer.top_k) : context_train; }
  /// Returns why a GPU cannot compute a context of so many positions, without a full stop; empty if it can.
  std::string why_context_on_cpu(int context_tokens) const;
  /// Returns what kind of model it is if no GPU can compute its layers ("an encoder"), otherwise an empty
  /// text.
  std::string_view cpu_only_kind() const;
  /// Returns the activation of the experts that a layer's router chooses.
  FfnActivation expert_activation_of(int index) const {
    return layer(index).expert_activation.value_or(activation);
  }
  /// Returns the shape of a layer's norm of q (n = heads_of(index)) or k (n = kv_heads_of(index)).
  NormShape qk_norm_shape(int n, int index) const {
    const int dim = head_dim_of(index);
    if (arch.qk_norm == QkNorm::kWhole) return {1, n * dim};
    return {arch.qk_norm == QkNorm::kEachHead ? n : 1, dim};
  }
  /// Returns the number of neurons in the widest FFN. Experts that a router chooses do not count.
  int widest_ffn() const { return std::max(d_ff, mixture.d_shared); }
  float score_scale() const {
    return attention_scale > 0.0f ? attention_scale : 1.0f / std::sqrt(static_cast<float>(head_dim));
  }

 private:
  int projected_q_dim_of(int q) const {
    if (latent) return n_heads * (latent.d_nope + latent.d_rope);
    return arch.gated_attention ? 2 * q : q;
  }
  int attended_dim_of(int q) const { return latent ? n_heads * latent.d_value : q; }
};

/// Reads and checks the keys. ffn_activation: a name known to parse_ffn_activation, if the user specified
/// one, or empty. Throws a ModelFileError that names the key, its value and the expected value. For an
/// unknown architecture, the message lists the known ones. For an activation that contradicts the file, it
/// tells the user what to do. Throws std::invalid_argument with a one-sentence message if ffn_activation is
/// not a known name.
ModelSpec read_model_spec(const ModelFile& file, std::string_view ffn_activation = {});

/// Returns the properties of the layers that predict later tokens. Throws like read_model_spec(). REQUIRES:
/// Architecture::nextn_heads. spec: the model's.
std::vector<LayerSpec> read_nextn_layers(const ModelFile& file, const ModelSpec& spec);

/// Like read_model_spec(), but for a file with an assistant. REQUIRES: is_assistant(file).
ModelSpec read_assistant_spec(const ModelFile& file);

}  // namespace hearth
