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
  /// Recurrent layers: all except every full_interval-th; 0 and no shape if there are none. Synthetic models
  /// cannot have them yet.
  int full_interval = 0;
  RecurrentShape recurrent = {};
  int n_rot = 0;  // dimensions of a head that turn; 0: all

  int head_dim() const { return d_head > 0 ? d_head : d_model / n_heads; }
  int q_dim() const { return n_heads * head_dim(); }
  int kv_dim() const { return n_kv_heads * head_dim(); }
  bool has_experts() const { return n_experts > 0; }
  bool is_recurrent(int layer) const { return full_interval > 0 && (layer + 1) % full_interval != 0; }
  /// Returns whether the FFN has a gate matrix in addition to up and down.
  bool gated() const { return architecture != "opt" && architecture != "falcon"; }
  /// Returns whether the activation leaves neurons at zero. If so, a synthetic model of this shape has
  /// planted activity.
  bool has_zero_neurons() const { return predictor_rank > 0 || architecture == "smallthinker"; }
};

/// All shapes; within a family, from small to large.
std::span<const ModelShape> model_shapes();

/// Returns the shape of this name, or null if there is none. "llama-70b" means "70b".
const ModelShape* find_shape(std::string_view name);

/// "tiny, 1b, ...", for help and messages.
std::string shape_names();

}  // namespace hearth
