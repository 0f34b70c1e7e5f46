// The shapes of well-known models, without their files.
//
// Synthetic models are made from these shapes. Plans use them for models that are not on this machine.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "kernels/dtype.h"
#include "kernels/recurrent.h"

namespace hearth {

struct ModelShape {
  std::string_view name;          // "7b" is Llama 2 7B; other names begin with the family: "opt-30b"
  std::string_view architecture;  // general.architecture
  int d_model = 0;
  int d_ff = 0;  // neurons of a layer; for mixtures, of a layer without experts, as stated in the files
  int n_layers = 0;
  int n_heads = 0;
  int n_kv_heads = 0;
  int n_vocab = 0;
  int context_tokens = 0;  // context that the model was trained on
  int predictor_rank = 0;  // hidden width of a predictor; 0: PowerInfer has no files of this shape

  int d_head = 0;        // 0: d_model / n_heads
  double rope_base = 0;  // 0: the default, 10,000, which files omit
  int window = 0;        // attention.sliding_window; 0: none
  bool tied = false;     // the output matrix is the embedding
  /// Experts per layer, experts per token, and neurons of one expert; 0 if the model is not a mixture.
  int n_experts = 0, n_used = 0, d_expert = 0;
  bool mxfp4_experts = false;  // experts are MXFP4, regardless of the type of other matrices
  int d_shared = 0;            // neurons of the shared expert; 0 if there is none
  int n_dense = 0;             // number of first layers without experts
  /// In models with layers of two kinds, every full_interval-th layer has full attention. The others are
  /// recurrent if `recurrent` is set, and have the window otherwise. 0: not such a model.
  int full_interval = 0;
  RecurrentShape recurrent = {};
  /// A letter for each layer of a model whose layers are one block each: M is recurrent, * has attention, E
  /// has experts. Empty: every layer has an FFN beside its attention or recurrence.
  std::string_view blocks = {};
  int n_rot = 0;                  // dimensions of a head that turn; 0: all
  int d_head_window = 0;          // d_head of layers with the window; 0: d_head
  int n_kv_heads_full = 0;        // n_kv_heads of layers with full attention; 0: n_kv_heads
  bool values_from_keys = false;  // layers with full attention have no value matrix
  int n_shared_kv = 0;            // last layers, which read the keys and values of earlier ones
  int d_layer_embedding = 0;      // size of a token's embedding for each layer; 0: there is none
  double logit_cap = 0;           // final_logit_softcapping; 0: none

  int head_dim() const { return d_head > 0 ? d_head : d_model / n_heads; }
  int q_dim() const { return n_heads * head_dim(); }
  int kv_dim() const { return n_kv_heads * head_dim(); }
  bool has_experts() const { return n_experts > 0; }
  bool is_full(int layer) const { return full_interval == 0 || (layer + 1) % full_interval == 0; }
  bool is_recurrent(int layer) const {
    if (!blocks.empty()) return blocks[static_cast<size_t>(layer)] == 'M';
    return recurrent && !is_full(layer);
  }
  /// Returns whether a layer has attention or recurrence, and whether it has an FFN.
  bool mixes(int layer) const { return blocks.empty() || blocks[static_cast<size_t>(layer)] != 'E'; }
  bool has_ffn(int layer) const { return blocks.empty() || !mixes(layer); }
  /// Returns whether the model has layers of several kinds, whose tensors layer_tensors.h lists.
  bool is_hybrid() const { return recurrent || d_head_window > 0; }
  /// The last layers may read the keys and values of earlier layers. Returns the first layer that does so;
  /// n_layers if all layers have their own. A shape cut to fewer layers keeps the share of such layers and at
  /// least one full layer.
  int first_shared_kv() const;
  /// Returns the earlier layer of the layer's kind whose keys and values the layer reads; -1: it has its own.
  int kv_source(int layer) const;
  /// Returns whether the FFN has a gate matrix in addition to up and down.
  bool gated() const {
    return architecture != "opt" && architecture != "falcon" && architecture != "nemotron_h_moe";
  }
  /// Returns whether the activation leaves neurons at zero. If so, a synthetic model of this shape has
  /// planted activity.
  bool has_zero_neurons() const {
    return predictor_rank > 0 || architecture == "smallthinker" || architecture == "nemotron_h_moe";
  }
};

/// Returns the shape with its first n_layers layers. Throws std::invalid_argument (one sentence) if the
/// layers are too few for the shape's kinds of layers, or more than its `blocks`.
ModelShape with_layers(ModelShape shape, int n_layers);

/// All shapes; within a family, from small to large.
std::span<const ModelShape> model_shapes();

/// Returns the shape of this name, or null if there is none. "llama-70b" means "70b".
const ModelShape* find_shape(std::string_view name);

/// "tiny, 1b, ...", for help and messages.
std::string shape_names();

}  // namespace hearth
