// See the header.
#include "engine/model/assistant_weights.h"

#include <algorithm>
#include <string>

#include "engine/model/binder.h"
#include "kernels/base/file_error.h"

namespace hearth {
namespace {

[[noreturn]] void refuse(const ModelFile& file, const std::string& what) {
  file_error::fail(file_error::file_label(file.path().string()),
                   what + "; give the assistant that was made for this model");
}

/// Returns the model's last layer that has keys and values and sees as many positions as the assistant's
/// layer.
int source_for(const ModelFile& file, const ModelSpec& assistant, int layer, const ModelSpec& model) {
  const bool windowed = assistant.layer(layer).window > 0;
  int source = model.n_layers - 1;
  while (source >= 0 && (!model.attends(source) || !model.has_own_kv(source) ||
                         (model.layer(source).window > 0) != windowed)) {
    --source;
  }
  const std::string kind = windowed ? "a window" : "no window";
  if (source < 0) {
    refuse(file, "layer " + std::to_string(layer) + " has " + kind +
                     ", expected as in some layer of the model, whose keys and values it reads");
  }
  const auto shape = [](const ModelSpec& spec, int index) {
    return std::to_string(spec.kv_heads_of(index)) + " x " + std::to_string(spec.head_dim_of(index));
  };
  if (shape(assistant, layer) != shape(model, source)) {
    refuse(file, "layer " + std::to_string(layer) + " reads keys of " + shape(assistant, layer) +
                     " numbers, expected " + shape(model, source) + " as in layer " + std::to_string(source) +
                     " of the model");
  }
  if (assistant.layer(layer).window == 1)
    refuse(file, "layer " + std::to_string(layer) + " has a window of 1 position, expected at least 2");
  if (assistant.layer(layer).window != model.layer(source).window) {
    refuse(file, "layer " + std::to_string(layer) + " has a window of " +
                     std::to_string(assistant.layer(layer).window) + " positions, expected the model's " +
                     std::to_string(model.layer(source).window));
  }
  return source;
}

}  // namespace

bool is_assistant(const ModelFile& file) {
  return file.find_string("general.architecture").value_or("") == assistant_architecture().name;
}

std::unique_ptr<const AssistantWeights> bind_assistant(const ModelFile& file, const ModelSpec& model,
                                                       const Weights& weights) {
  auto out = std::make_unique<AssistantWeights>();
  const ModelSpec& spec = out->spec = read_assistant_spec(file);
  if (model.arch.name != "gemma4") {
    refuse(file, "it drafts for models of architecture gemma4, but the model has architecture " +
                     std::string(model.arch.name));
  }
  if (spec.n_vocab != model.n_vocab) {
    refuse(file, "it knows " + std::to_string(spec.n_vocab) + " tokens, expected the model's " +
                     std::to_string(model.n_vocab));
  }
  const std::string width = std::string(spec.arch.name) + ".embedding_length_out";
  const int64_t d_of_model = file.find_int(width).value_or(0);
  if (d_of_model != model.d_model) {
    refuse(file, "key " + file_error::quoted(width) + " is " + std::to_string(d_of_model) +
                     ", expected the width of the model's hidden states, " + std::to_string(model.d_model));
  }
  for (int i = 0; i < spec.n_layers; ++i) out->sources.push_back(source_for(file, spec, i, model));
  out->spec.logit_cap = 0;  // files have the cap of the model, which an assistant does not apply
  // The assistant sees what is left of the window of the token at p without that token, whose key is missing.
  for (LayerSpec& layer : out->spec.layers) layer.window = std::max(0, layer.window - 1);
  out->weights = bind_weights(file, spec);
  Binder bind(file);
  out->before.weight = bind.matrix("nextn.pre_projection.weight", spec.d_model, 2 * int64_t{model.d_model});
  out->after.weight = bind.matrix("nextn.post_projection.weight", model.d_model, spec.d_model);
  out->embedding = weights.token_embedding;
  out->embedding_scale = model.embedding_scale;
  out->d_of_model = model.d_model;
  return out;
}

}  // namespace hearth
