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
         !spec.powerinfer && spec.window() == 0 && spec.all_have_own_kv() && spec.d_layer_embedding == 0 &&
         spec.residual_scale == 1.0f && spec.embedding_scale == 1.0f;
}

/// Returns the shape of a model that consists of the layer with this prefix.
ModelSpec spec_of(const ModelFile& file, const ModelSpec& model, const std::string& prefix) {
  ModelSpec spec = model;
  const bool experts = file.find_tensor(prefix + "ffn_gate_inp.weight") != nullptr;
  spec.n_layers = 1;
  spec.n_unused_layers = 0;
  spec.layers = {LayerSpec{.experts = experts}};
  spec.recurrent = {};
  if (!experts) spec.mixture = {};
  return spec;
}

}  // namespace

std::variant<std::unique_ptr<const NextnWeights>, std::string> bind_nextn(const ModelFile& file,
                                                                          const ModelSpec& spec,
                                                                          const Weights& weights) {
  const std::string prefix = "blk." + std::to_string(spec.n_layers) + ".", own = prefix + "nextn.";
  // Files without the layer may have its key.
  if (spec.n_unused_layers == 0 || file.find_tensor(own + "eh_proj.weight") == nullptr)
    return std::unique_ptr<const NextnWeights>();
  if (!is_supported(spec)) {
    return "Hearth does not know how such a layer of architecture " + std::string(spec.arch.name) +
           " is computed";
  }
  try {
    Binder bind(file);
    auto nextn = std::make_unique<NextnWeights>();
    nextn->spec = spec_of(file, spec, prefix);
    nextn->weights = bind_nextn_layer(bind, nextn->spec, spec.n_layers);
    nextn->embedding_norm = bind.norm(own + "enorm", spec.d_model, spec.arch);
    nextn->hidden_norm = bind.norm(own + "hnorm", spec.d_model, spec.arch);
    nextn->join = bind.linear(own + "eh_proj", spec.d_model, 2 * int64_t{spec.d_model});
    Weights& all = nextn->weights;
    const auto table = [&](const char* name, const Matrix& of_model) {
      return bind.has(own + name) ? bind.matrix(own + name, spec.n_vocab, spec.d_model) : of_model;
    };
    all.token_embedding = table("embed_tokens.weight", weights.token_embedding);
    all.output = bind.has(own + "shared_head_head.weight")
                     ? bind.linear(own + "shared_head_head", spec.n_vocab, spec.d_model)
                     : weights.output;
    all.output_norm = bind.has(own + "shared_head_norm.weight")
                          ? bind.norm(own + "shared_head_norm", spec.d_model, spec.arch)
                          : weights.output_norm;
    all.rope_divisors = weights.rope_divisors;
    all.long_rope_divisors = weights.long_rope_divisors;
    all.vectors = bind.take_vectors();
    return std::unique_ptr<const NextnWeights>(std::move(nextn));
  } catch (const ModelFileError& error) {
    return error.what();
  }
}

}  // namespace hearth
