// The weights of a model's layers that predict later tokens: the layers after the model's own
// (ModelSpec::n_unused_layers), called "nextn" in GGUF files and MTP in papers (Gloeckle et al. 2024;
// DeepSeek-V3, 2024).
//
// Such a layer has attention and an FFN, like the layers of its model, with keys and values of its own. Most
// models have one, or only the first one is used. From the token at position p and the hidden state h of the
// token before it, after the model's output norm, it computes the logits of the token at position p + 1:
//
//   x      = join [rms(embedding of the token, embedding_norm); rms(h, hidden_norm)]
//   h'     = rms(layer(x), output_norm)
//   logits = output h'
//
// h' takes the place of h if the token at p + 1 is a guess itself.
//
// With Architecture::nextn_heads, the layers are heads. For head k (0-based), h is the hidden state of the
// token at p - 1 - k, before the model's output norm. So head 0 guesses the token after the last known one,
// and head k guesses from the tokens of the heads before it and a hidden state of the model. n heads guess n
// tokens.
//
// engine/forward/nextn_pass.h runs the layers. Built at load by ModelRuntime, const afterward.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "engine/model/binder.h"
#include "engine/model/model_file.h"
#include "engine/model/model_spec.h"
#include "engine/model/weights.h"

namespace hearth {

struct NextnHead {
  Weights weights;                          // of the layer, and the embeddings and output that it uses
  NormWeights embedding_norm, hidden_norm;  // [d_model]
  Linear join;                              // [d_model, 2 * d_model]
};

struct NextnWeights {
  ModelSpec spec;                // of a model that consists of one head
  std::vector<NextnHead> heads;  // at least one, of equal shapes; one without Architecture::nextn_heads

  int n_heads() const { return static_cast<int>(heads.size()); }
  /// The mixture of experts of the layer. Only a layer that is no head has experts.
  const MixtureWeights& mixture() const { return heads.front().weights.layers.front().mixture; }
};

/// Returns null if the model has no layer that predicts later tokens, or a sentence's second half with the
/// reason why the layer cannot be used: the model runs without it. weights: the model's. The file and the
/// model's weights must outlive the result.
std::variant<std::unique_ptr<const NextnWeights>, std::string> bind_nextn(const ModelFile& file,
                                                                          const ModelSpec& spec,
                                                                          const Weights& weights);

/// Returns the weights of the only layer of `spec`, which is layer `block` of the file. Throws ModelFileError
/// like bind_weights(). Defined in weights.cpp.
Weights bind_nextn_layer(Binder& bind, const ModelSpec& spec, int block);

}  // namespace hearth
