// The weights of an assistant: a small model that drafts for one large model, from that model's hidden states
// and keys and values (architecture gemma4-assistant, a file of its own).
//
// All layers of the assistant read the keys and values of the model's last layer with a window, or of its
// last layer without one; they have none of their own. So the assistant never reads a prompt. From the newest
// token at position p, which the model has not computed yet, and the model's hidden state h of the token
// before it, after the output norm, it computes the logits of the token at position p + 1:
//
//   x      = before [embedding of the token in the model, scaled as there; h]
//   y      = rms(layers(x), output_norm)     queries have position p; keys are those before p
//   logits = output y
//   h'     = after y
//
// For the next guess, the guessed token and h' take the place of the token and h. The position stays p, since
// the model has no keys of the guesses.
//
// engine/forward/assistant_pass.h runs the layers. Built at load by ModelRuntime, const afterward.
#pragma once

#include <memory>
#include <vector>

#include "engine/model/model_file.h"
#include "engine/model/model_spec.h"
#include "engine/model/weights.h"

namespace hearth {

struct AssistantWeights {
  ModelSpec spec;            // of the assistant; LayerSpec::kv_source of each layer is the layer itself
  Weights weights;           // of the assistant
  Linear before;             // [d_model, 2 * the model's d_model]
  Linear after;              // [the model's d_model, d_model]
  std::vector<int> sources;  // [n_layers] the model's layers whose keys and values the layers read
  Matrix embedding;          // the model's token embeddings
  float embedding_scale = 1.0f;
  int d_of_model = 0;  // the model's d_model
};

/// Whether a file has an assistant instead of a model.
bool is_assistant(const ModelFile& file);

/// Returns the weights of the assistant in `file` for a model. weights: the model's. Both files' data and the
/// model's weights must outlive the result. Throws ModelFileError if the file is damaged, or is an assistant
/// of another model.
std::unique_ptr<const AssistantWeights> bind_assistant(const ModelFile& file, const ModelSpec& model,
                                                       const Weights& weights);

}  // namespace hearth
