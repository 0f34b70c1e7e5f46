// The shapes of well-known models, without their files.
//
// Synthetic models are made from them. They also allow plans for machines and models that are not on this
// machine.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace hearth {

struct ModelShape {
  std::string_view name;  // "7b" is Llama 2 7B; names of other families begin with the family: "opt-30b"
  std::string_view architecture;  // general.architecture
  int d_model = 0;
  int d_ff = 0;  // neurons of a layer
  int n_layers = 0;
  int n_heads = 0;
  int n_kv_heads = 0;
  int n_vocab = 0;
  int context_tokens = 0;  // trained on
  int predictor_rank = 0;  // hidden width of a layer's predictor

  int head_dim() const { return d_model / n_heads; }
  int kv_dim() const { return n_kv_heads * head_dim(); }
};

/// All shapes, small to large within a family.
std::span<const ModelShape> model_shapes();

/// The shape of this name, or null if there is none. "llama-70b" is "70b".
const ModelShape* find_shape(std::string_view name);

/// "tiny, 1b, ...", for help and messages.
std::string shape_names();

}  // namespace hearth
