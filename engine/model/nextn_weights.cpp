// See the header.
#include "engine/model/nextn_weights.h"

#include "kernels/base/file_error.h"

namespace hearth {
namespace {

/// Whether layers of this architecture are put together from the parts that NextnWeights describes.
bool is_supported(const ModelSpec& spec) {
  const Architecture& arch = spec.arch;
  return arch.norm == NormKind::kRms && arch.norms == NormPlace::kBefore && !arch.parallel_attention &&
         arch.has_output && !arch.position_offset && !arch.token_types && !arch.embedding_norm &&
         !spec.powerinfer && (arch.nextn_heads || spec.window() == 0) && spec.all_have_own_kv() &&
         spec.d_layer_embedding == 0 && spec.residual_scale == 1.0f && spec.embedding_scale == 1.0f;
}

std::string prefix_of(const ModelSpec& model, int head) {
  return "blk." + std::to_string(model.n_layers + head) + ".";
}

bool has_head(const ModelFile& file, const ModelSpec& model, int head) {
  return head < model.n_unused_layers &&
         file.find_tensor(prefix_of(model, head) + "nextn.eh_proj.weight") != nullptr;
}

/// Returns the shape of a model that consists of the layer.
ModelSpec spec_of(const ModelFile& file, const ModelSpec& model, const LayerSpec& layer) {
  ModelSpec spec = model;
  const bool experts = file.find_tensor(prefix_of(model, 0) + "ffn_gate_inp.weight") != nullptr;
  spec.n_layers = 1;
  spec.n_unused_layers = 0;
  spec.layers = {layer};
  spec.layers.front().experts = experts;
  spec.recurrent = {};
  if (!experts) spec.mixture = {};
  return spec;
}

NextnHead bind_head(Binder& bind, const ModelSpec& model, const Weights& weights, const ModelSpec& spec,
                    int head) {
  const std::string prefix = prefix_of(model, head), own = prefix + "nextn.";
  NextnHead out;
  out.weights = bind_nextn_layer(bind, spec, model.n_layers + head);
  out.embedding_norm = bind.norm(own + "enorm", spec.d_model, spec.arch);
  out.hidden_norm = bind.norm(own + "hnorm", spec.d_model, spec.arch);
  out.join = bind.linear(own + "eh_proj", spec.d_model, 2 * int64_t{spec.d_model});
  Weights& all = out.weights;
  all.token_embedding = bind.has(own + "embed_tokens.weight")
                            ? bind.matrix(own + "embed_tokens.weight", spec.n_vocab, spec.d_model)
                            : weights.token_embedding;
  all.output = bind.has(own + "shared_head_head.weight")
                   ? bind.linear(own + "shared_head_head", spec.n_vocab, spec.d_model)
                   : weights.output;
  all.output_norm = weights.output_norm;
  for (const std::string& norm : {own + "shared_head_norm", prefix + "layer_output_norm"}) {
    if (!bind.has(norm + ".weight")) continue;
    all.output_norm = bind.norm(norm, spec.d_model, spec.arch);
    break;
  }
  all.rope_divisors = weights.rope_divisors;
  all.long_rope_divisors = weights.long_rope_divisors;
  return out;
}

}  // namespace

std::variant<std::unique_ptr<const NextnWeights>, std::string> bind_nextn(const ModelFile& file,
                                                                          const ModelSpec& spec,
                                                                          const Weights& weights) {
  // Files without the layer may have its key.
  if (!has_head(file, spec, 0)) return std::unique_ptr<const NextnWeights>();
  if (!is_supported(spec)) {
    return "Hearth does not know how such a layer of architecture " + std::string(spec.arch.name) +
           " is computed";
  }
  try {
    const std::vector<LayerSpec> layers =
        spec.arch.nextn_heads ? read_nextn_layers(file, spec) : std::vector<LayerSpec>(1);
    Binder bind(file);
    auto nextn = std::make_unique<NextnWeights>();
    nextn->spec = spec_of(file, spec, layers.front());
    for (int head = 0; head < static_cast<int>(layers.size()) && has_head(file, spec, head); ++head) {
      // Heads share their buffers, and the memory of their keys is counted by the first one.
      if (layers[static_cast<size_t>(head)] != layers.front()) break;
      nextn->heads.push_back(bind_head(bind, spec, weights, nextn->spec, head));
    }
    nextn->heads.front().weights.vectors = bind.take_vectors();
    return std::unique_ptr<const NextnWeights>(std::move(nextn));
  } catch (const ModelFileError& error) {
    return error.what();
  }
}

}  // namespace hearth
