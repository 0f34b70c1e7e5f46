// See the header.
#include "engine/model/model_identity.h"

#include <algorithm>

#include "engine/model/ffn_activation.h"

namespace hearth {
namespace {

constexpr size_t kMaxName = 96;  // bytes; the name is only shown to people

void append_number(std::string& to, uint64_t number) {
  for (int shift = 0; shift < 64; shift += 8) to += static_cast<char>(number >> shift & 255);
}

}  // namespace

Sha256 content_hash(const ModelFile& file) {
  std::string seen = "hearth model 1";
  for (const TensorInfo& tensor : file.tensors()) {
    append_number(seen, tensor.name.size());
    seen += tensor.name;
    append_number(seen, dtype_info(tensor.dtype).gguf_id);
    for (const int64_t n : tensor.shape) append_number(seen, static_cast<uint64_t>(n));
    const size_t n = std::min(tensor.bytes, kSampledBytes);
    seen.append(reinterpret_cast<const char*>(tensor.data) + (tensor.bytes - n) / 2, n);
  }
  return sha256(seen);
}

ModelIdentity identify(const ModelFile& file, const ModelSpec& spec) {
  ModelIdentity model;
  const std::optional<std::string_view> name = file.find_string("general.name");
  model.name = name && !name->empty() ? std::string(*name) : file.path().stem().string();
  model.name.resize(std::min(model.name.size(), kMaxName));
  model.activation = ffn_activation_name(spec.activation);
  model.n_layers = spec.n_layers;
  model.d_model = spec.d_model;
  model.d_ff = spec.d_ff;
  model.n_experts = spec.mixture.n_experts;
  model.content = content_hash(file);
  return model;
}

std::string file_stem(const ModelIdentity& model) {
  std::string stem;
  for (const char c : model.name.substr(0, 48)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || (c == '.' && !stem.empty());
    stem += plain ? c : '_';
  }
  // The hash covers the content and the activation. All other parts of the identity follow from the content.
  const Sha256 whole = sha256(hex_text(model.content) + model.activation);
  return stem + "-" + hex_text(whole).substr(0, 16);
}

}  // namespace hearth
