// A model's tensors, bound to their roles and checked against the ModelSpec.
//
// Matrices stay in the file's mapping, in their own type; small vectors (norms, biases) are converted to
// float once. Built at load by ModelRuntime, const afterward.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "engine/model/devices.h"
#include "engine/model/model_file.h"
#include "engine/model/model_spec.h"
#include "kernels/experts.h"
#include "kernels/matrix.h"

namespace hearth {

/// A norm's parameters [n]. scale is null if there is no norm; bias is null for RMS norms.
struct NormWeights {
  const float* scale = nullptr;
  const float* bias = nullptr;
};

/// y = weight x + bias; bias may be null.
struct Linear {
  Matrix weight;
  const float* bias = nullptr;
};

/// One stage of a model's head, see text_head.h: norm(act(linear x)).
struct HeadStage {
  Linear linear;
  HeadActivation activation = HeadActivation::kNone;
  const float* norm =
      nullptr;  // [linear.weight.n_rows] weights of a layer norm without a bias; null: no norm
};

/// The additional weights of a layer with latent attention; LayerWeights::q is the last projection of the
/// queries. Let x be the layer's input and c the result of norming the first kv_rank numbers of kv_a x. Then
/// head h's key consists of keys_h^T c and the remaining numbers of kv_a x, which are rotated. The head's
/// value is values_h c. Empty in other layers.
struct LatentWeights {
  Linear q_a;                        // [q_rank, d_model]; null: q reads the layer's input
  const float* q_a_norm = nullptr;   // [q_rank]
  Linear kv_a;                       // [kv_rank + d_rope, d_model]
  const float* kv_a_norm = nullptr;  // [kv_rank]
  /// [n_heads * kv_rank, d_nope], one head after the other. Maps the d_nope unrotated numbers of a head's
  /// query to the latent space.
  Matrix keys;
  Matrix values;  // kv_rank columns; head h's d_value rows begin at row first_value + h * rows_apart
  int64_t first_value = 0, rows_apart = 0;
};

/// The weights of a layer's indexer (kernels/indexer.h); empty in layers without one. The queries are q times
/// the queries' normed latent; keys and the weights of heads are products with the layer's input. They stay
/// in host memory.
struct IndexerWeights {
  Linear q;            // [n_heads * head_dim, q_rank]
  Linear k;            // [head_dim, d_model]
  Linear heads;        // [n_heads, d_model]
  NormWeights k_norm;  // [head_dim], a layer norm of each key before it is rotated
};

/// The weights of a recurrent layer with states (LayerSpec::recurrent, shapes in RecurrentShape); empty in
/// other layers. Let x be the layer's normed input. qkv x goes through the convolution and gives queries,
/// keys and values; z x is the gate of the norm of the result, which `out` projects.
struct DeltaWeights {
  Linear qkv;  // [conv_dim, d_model] rows of all queries, keys and values in the order of conv_parts()
  Linear z;    // [value_dim, d_model]
  Linear beta, alpha;  // [n_v_heads, d_model]; beta is null in Mamba-2
  Linear out;          // [d_model, value_dim]
  /// Only with Architecture::row_decays, where qkv is null, z is [value_dim, head_dim] and reads short_z x,
  /// and alpha is [decay_dim, head_dim] and reads short_alpha x.
  Linear q, k, v;               // [key_dim | value_dim, d_model]
  Linear short_z, short_alpha;  // [head_dim, d_model]
  /// [n_taps, conv_dim], the oldest token's tap first: the last row multiplies the token itself.
  const float* taps = nullptr;
  /// dt and a are [decay_dim]. For each token, a head's state is multiplied by
  /// exp(a * softplus(alpha x + dt)), and sigmoid(beta x) weights what the token adds to it. a <= 0.
  const float* dt = nullptr;
  const float* a = nullptr;
  /// The norm's weights for each value head's result: [head_dim], equal for all heads. In Mamba-2, the value
  /// heads of each key head are normed together, with their own weights: [value_dim]; null: no norm.
  const float* norm = nullptr;
  const float* conv_bias = nullptr;  // [conv_dim]; null: none
  const float* skip = nullptr;       // [n_v_heads], see SelectiveScan; only in Mamba-2
};

/// The weights of a short convolution (RecurrentKind::kShortConv); empty in other layers. Let x be the
/// layer's normed input. The convolution reads the element-wise product of input x and input_gate x; `out`
/// projects the product of its result and output_gate x.
struct ShortConvWeights {
  Linear input_gate, output_gate, input;  // [d_model, d_model] each; rows of one tensor
  Linear out;                             // [d_model, d_model]
  const float* taps = nullptr;            // [n_taps, d_model], the oldest token's tap first
};

/// A layer's mixture of experts; empty if the layer has none. The router and the norms are in the memory of
/// the layer's device. Everything else stays in host memory.
struct MixtureWeights {
  Linear router;  // [n_experts, d_model]
  /// [d_latent, d_model] computes what the experts read, and [d_model, d_latent] what their sum adds; null
  /// without MixtureSpec::d_latent.
  Linear latent_in, latent_out;
  const float* choice_bias = nullptr;  // [n_experts], see Router; null: no bias
  std::vector<Expert> experts;         // [n_experts]
  /// Null without MixtureFacts::beside_dense. The router reads the residual stream normed with router_norm /
  /// sqrt(d_model), the experts read it normed with experts_norm. The other norms are for the results.
  const float* weight_scales = nullptr;      // [n_experts], see Router
  const float* router_norm = nullptr;        // [d_model]
  const float* experts_norm = nullptr;       // [d_model]
  const float* experts_post_norm = nullptr;  // [d_model]
  const float* dense_post_norm = nullptr;    // [d_model]
  Linear shared_gate;  // [1, d_model] computes the weight of the shared expert; null: no such gate
  /// The shared expert, if it has a gate. A shared expert without a gate is in LayerWeights::gate, up and
  /// down.
  std::vector<Expert> shared;
};

/// How a layer predicts and corrects the streams of the residual stream (ResidualStreams). Empty without
/// streams; n is ModelSpec::n_streams.
struct StreamWeights {
  Linear router;                         // [n, d_model]
  const float* router_norm = nullptr;    // [d_model]
  Linear predict;                        // [n * n, n]
  Linear correct;                        // [n, n], whose bias is 1
  const float* correct_scale = nullptr;  // [d_model]
};

/// A matrix [d_model, d_model] for each stream except the first: `starts` compute the streams from the
/// embeddings, `ends` project them before they are averaged. Empty without streams.
struct StreamMatrices {
  std::vector<Linear> starts, ends;
};

/// For the input x of a layer's attention, x + norm(right left x) is added to attention's output (learned
/// augmented residual layers). Empty in models without them.
struct LaurelWeights {
  Linear left, right;           // [rank, d_model], [d_model, rank]
  const float* norm = nullptr;  // [d_model]
};

struct LayerWeights {
  NormWeights attention_norm;  // [d_model], norm of attention's input
  /// q is [projected_q_dim, d_model], k and v are [kv_dim, d_model]. They may be rows of one tensor. v is
  /// null if values come from keys (Architecture::value_from_key), k and v if LayerSpec::kv_source is set.
  /// With a latent for keys and values, k and v are null. With a latent for queries, q is [projected_q_dim,
  /// q_rank]. With gated attention, q has for each head head_dim rows of the query, then head_dim rows of the
  /// gate. In recurrent layers, q, k, v and attention_out are null.
  Linear q, k, v;
  LatentWeights latent;
  IndexerWeights indexer;
  DeltaWeights delta;
  ShortConvWeights short_conv;
  const float* q_norm = nullptr;  // shape: ModelSpec::qk_norm_shape(); null: no norm
  const float* k_norm = nullptr;  //
  const float* v_norm = nullptr;  // [head_dim] ones, for the norm of each head's values; null: no norm
  const float* sinks = nullptr;   // [heads_of(layer)], see AttentionScores; null: no sinks
  /// [Weights::query_growth.size()], see AttentionScores::growth; null: queries do not grow
  const float* query_growth = nullptr;
  const float* slopes = nullptr;  // [heads_of(layer)], see AttentionScores; null: no slopes
  Linear attention_gate;  // [attended_dim | heads_of(layer), d_model], see Architecture; null: no gate
  Linear attention_out;   // [d_model, attended_dim]
  NormWeights attention_post_norm;  // [d_model] norms attention's output or the residual sum (NormPlace)
  NormWeights ffn_norm;             // [d_model]; null in parallel layers whose FFN uses attention_norm
  /// [d_ff, d_model]; may be rows of one tensor. gate is null if the FFN has none. In a mixture: matrices of
  /// the shared expert, [d_shared, d_model]; null if there is no shared expert or MixtureWeights has it.
  Linear gate, up;
  Linear down;       // [d_model, d_ff]; null in PowerInfer's files, which have down_rows
  Linear down_rows;  // [d_ff, d_model] row j is neuron j's down column; the bias is [d_model]
  std::optional<FfnActivation> activation = {};  // of these matrices; nullopt: ModelSpec::activation
  NormWeights ffn_post_norm;  // [d_model] norms the FFN's output or the residual sum (NormPlace)
  /// How a token's embedding for the layer joins the residual stream, see LayerEmbeddings; null in models
  /// without such embeddings. The gate is [d_layer_embedding, d_model], the projection its transpose.
  Linear embedding_gate, embedding_projection;
  NormWeights embedding_post_norm;  // [d_model]
  StreamWeights streams;
  LaurelWeights laurel;
  float output_scale = 1.0f;  // multiplies the residual stream after the layer
  MixtureWeights mixture;
  /// The layer's predictor; null: no predictor. For the input x, it proposes neuron j if
  /// (predictor_out relu(predictor_in x))_j is at least the predictors' threshold.
  Matrix predictor_in;   // [rank, d_model]; layers may have different ranks
  Matrix predictor_out;  // [d_ff, rank]
};

/// The projection of a token's embedding that is added to its embeddings for all layers (LayerEmbeddings);
/// n_all = n_layers * d_layer_embedding.
struct LayerProjection {
  Linear linear;                // [n_all, d_model]
  const float* norm = nullptr;  // [d_layer_embedding]
};

struct Weights {
  Matrix token_embedding;     // [n_vocab, d_model]
  Matrix position_embedding;  // [offset + positions, d_model]; null: no learned positions
  Matrix token_types;         // [types, d_model]; null: no token types
  /// For LayerEmbeddings, null in other models.
  Matrix layer_embeddings;           // [n_vocab, n_all], in host memory
  LayerProjection layer_projection;  // in the memory of the device of layer 0, as the next member
  StreamMatrices stream_matrices;
  NormWeights embedding_norm;  // [d_model] norms the sum of a token's embeddings; null: no norm
  std::vector<LayerWeights> layers;
  /// [n_layers] Layers whose matrices are in host memory and whose vectors are in the device's memory, so
  /// that a device can compute these layers too, in long steps. Empty if the device computes only its own
  /// layers (ComputeDevice::streams_layers). Entries of the device's own layers are not used.
  std::vector<LayerWeights> streamed;
  NormWeights output_norm;      // [d_model]; null without Architecture::has_output_norm
  Linear output;                // [n_vocab, d_model]; the token embeddings if the file has no output.weight;
                                // null without Architecture::has_output
  std::vector<HeadStage> head;  // in host memory; empty: the model has no head
  bool embeds_on_device = false;     // the token embeddings are in the device's memory, not the host's
  std::vector<float> rope_divisors;  // [n_rot / 2] rope_freqs or rope_factors_short; empty: no such tensor
  std::vector<float> long_rope_divisors;  // rope_factors_long, for longer contexts; empty: no such tensor
  std::vector<std::vector<float>> turned_keys;  // [n_layers] LatentWeights::keys of older files
  /// Matrices of DeltaWeights whose rows have another order in the file.
  std::vector<std::vector<std::byte>> reordered;
  /// [i] factor for queries in the i-th stretch of rope.original_context positions. Empty: queries do not
  /// grow.
  std::vector<float> query_growth;
  std::vector<float> slopes;  // [n_heads] by Architecture::alibi; empty: there are none

  std::vector<float> ones;  // norms without weights, biases of corrections; empty: there are none of them

  struct alignas(64) Line {
    float floats[16];
  };
  std::vector<Line> vectors;  // owns the floats of all vectors above; each vector starts on a cache line

  Weights() = default;
  Weights(Weights&&) = default;
  Weights& operator=(Weights&&) = default;

  bool has_predictors() const { return static_cast<bool>(layers.front().predictor_in); }
  bool has_down_rows() const { return static_cast<bool>(layers.front().down_rows.weight); }

  /// Returns the size in bytes of turned_keys and `reordered`. They take this memory in addition to the file.
  double copied_bytes() const {
    double n = 0;
    for (const std::vector<float>& keys : turned_keys) n += static_cast<double>(keys.size() * sizeof(float));
    for (const std::vector<std::byte>& rows : reordered) n += static_cast<double>(rows.size());
    return n;
  }

  bool tied() const { return output.weight.data == token_embedding.data; }

  /// Returns one layer's weights in the memory of a device. Excludes the matrices and biases of neurons,
  /// which NeuronLayout places, and the predictor unless `predictor` is set.
  LayerWeights layer_on(Memory& memory, const ModelSpec& spec, int layer, bool predictor) const;
  /// Like layer_on(), but copies only norms, biases and other vectors. The matrices stay in host memory.
  LayerWeights vectors_on(Memory& memory, const ModelSpec& spec, int layer) const;
  LayerProjection layer_projection_on(Memory& memory, const ModelSpec& spec) const;
  StreamMatrices stream_matrices_on(Memory& memory) const;
  Linear output_on(Memory& memory) const;
  NormWeights output_norm_on(Memory& memory, const ModelSpec& spec) const;

  /// Copies the weights of the device's layers and of the output to the device, and the layer projection and
  /// the streams' matrices if the device has layer 0. The token embeddings are on
  /// the device too if they are also the output's matrix, the device has layer 0, and there are no learned
  /// positions. streams: whether to set `streamed`, for which the vectors of the other layers are copied too.
  /// This object must outlive the result.
  Weights placed(const Devices& devices, const ModelSpec& spec, bool predictors, bool streams = false) const;

  /// Returns the size in bytes of the matrices of output, layer projection and streams.
  size_t bytes_beside_layers() const;
  /// Returns the size in bytes of all matrices that a dense pass reads for one decoded token, including the
  /// output matrix.
  size_t bytes_per_token(const ModelSpec& spec) const;
};

/// Whether a tensor of this name holds weights of experts that a router chooses.
bool is_of_experts(std::string_view tensor_name);

/// Returns the matrices of a layer's attention, or of the recurrent layer in its place, and those of its
/// token embeddings; null for matrices that the layer lacks. Use them only to compute sizes, because the rows
/// of a matrix may not be adjacent.
std::array<Matrix, 30> attention_matrices(const LayerWeights& layer);

/// Returns the size in bytes of attention_matrices(), all of which are read for each token.
size_t attention_bytes(const LayerWeights& layer);

/// expert_bytes() returns the size in bytes of one expert's matrices in the file, experts_bytes() that of all
/// experts of a layer.
size_t expert_bytes(const Expert& expert);
size_t experts_bytes(const MixtureWeights& mixture);

/// Returns the size in bytes of the parts of a layer's mixture that are read for one token: the router, the
/// experts used, and a shared expert with its gate.
size_t mixture_bytes_per_token(const ModelSpec& spec, const MixtureWeights& mixture);

/// Binds the weights, which stay in host memory. Throws ModelFileError if a tensor is missing, has a wrong
/// shape, or has a type that its role does not allow. Also throws if the architecture has no role for a
/// tensor, because ignoring it would give wrong answers. The file must outlive the weights.
Weights bind_weights(const ModelFile& file, const ModelSpec& spec);

}  // namespace hearth
