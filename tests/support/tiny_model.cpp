// Makes the keys and tensors of tiny models.
#include "tests/support/tiny_model.h"

#include <cmath>
#include <cstdio>
#include <random>
#include <utility>

namespace hearth::test {

TinyModel::TinyModel(const std::string& architecture, const TinyShape& shape) : shape_(shape) {
  const std::string prefix = architecture + ".";
  key("general.architecture", architecture);
  key("general.name", "tiny");
  key(prefix + "block_count", static_cast<uint32_t>(shape.n_layers));
  key(prefix + "context_length", static_cast<uint32_t>(shape.context));
  key(prefix + "embedding_length", static_cast<uint32_t>(shape.d_model));
  key(prefix + "feed_forward_length", static_cast<uint32_t>(shape.d_ff));
  key(prefix + "attention.head_count", static_cast<uint32_t>(shape.n_heads));
  key(prefix + "attention.head_count_kv", static_cast<uint32_t>(shape.n_kv_heads));
  const bool bert = architecture == "bert";
  if (architecture == "falcon" || bert) key(prefix + "attention.layer_norm_epsilon", 1e-5f);
  if (architecture != "falcon" && architecture != "opt" && !bert) {
    key(prefix + "attention.layer_norm_rms_epsilon", 1e-5f);
  }
  if (shape.d_model != shape.n_heads * shape.head_dim) {
    key(prefix + "attention.key_length", static_cast<uint32_t>(shape.head_dim));
    key(prefix + "attention.value_length", static_cast<uint32_t>(shape.head_dim));
  }
  add_vocabulary(shape.n_vocab);

  matrix("token_embd.weight", shape.d_model, shape.n_vocab);
  for (int i = 0; i < shape.n_layers; ++i) {
    add_layer(architecture, "blk." + std::to_string(i) + ".", shape);
  }
  if (bert) {
    key(prefix + "attention.causal", false);
    matrix("token_types.weight", shape.d_model, 2);
    matrix("position_embd.weight", shape.d_model, shape.context);
    norm(architecture, "token_embd_norm", shape.d_model);
    return;
  }
  norm(architecture, "output_norm", shape.d_model);
  if (architecture != "opt") matrix("output.weight", shape.d_model, shape.n_vocab);
  if (architecture == "opt") matrix("position_embd.weight", shape.d_model, shape.context + 2);
}

void TinyModel::add_vocabulary(int n_vocab) {
  std::vector<std::string> tokens{"<unk>", "<s>", "</s>"};
  std::vector<int32_t> types{2, 3, 3};  // GGUF: unknown, control, control
  char text[16];
  for (int byte = 0; byte < 256; ++byte) {
    std::snprintf(text, sizeof(text), "<0x%02X>", static_cast<unsigned>(byte));
    tokens.emplace_back(text);
    types.push_back(6);  // byte
  }
  while (static_cast<int>(tokens.size()) < n_vocab) {
    tokens.push_back("token" + std::to_string(tokens.size()));
    types.push_back(1);  // normal
  }
  key("tokenizer.ggml.model", "llama");
  array("tokenizer.ggml.scores", std::vector<float>(tokens.size(), 0.0f));
  array("tokenizer.ggml.tokens", std::move(tokens));
  array("tokenizer.ggml.token_type", std::move(types));
  key("tokenizer.ggml.bos_token_id", uint32_t{1});
  key("tokenizer.ggml.eos_token_id", uint32_t{2});
}

void TinyModel::add_layer(const std::string& architecture, const std::string& prefix,
                          const TinyShape& shape) {
  const int q_dim = shape.n_heads * shape.head_dim, kv_dim = shape.n_kv_heads * shape.head_dim;
  const bool falcon = architecture == "falcon", opt = architecture == "opt", bert = architecture == "bert";
  norm(architecture, prefix + (bert ? "attn_output_norm" : "attn_norm"), shape.d_model);
  if (falcon) {
    matrix(prefix + "attn_qkv.weight", shape.d_model, q_dim + 2 * kv_dim);
  } else {
    matrix(prefix + "attn_q.weight", shape.d_model, q_dim);
    matrix(prefix + "attn_k.weight", shape.d_model, kv_dim);
    matrix(prefix + "attn_v.weight", shape.d_model, kv_dim);
    norm(architecture, prefix + (bert ? "layer_output_norm" : "ffn_norm"), shape.d_model);
  }
  matrix(prefix + "attn_output.weight", q_dim, shape.d_model);
  if (!falcon && !opt && !bert) matrix(prefix + "ffn_gate.weight", shape.d_model, shape.d_ff);
  matrix(prefix + "ffn_up.weight", shape.d_model, shape.d_ff);
  matrix(prefix + "ffn_down.weight", shape.d_ff, shape.d_model);
  if (opt || bert) {
    random_tensor(prefix + "attn_output.bias", {shape.d_model}, 0.0, 0.5);
    random_tensor(prefix + "ffn_up.bias", {shape.d_ff}, 0.0, 0.5);
    random_tensor(prefix + "ffn_down.bias", {shape.d_model}, 0.0, 0.5);
  }
  if (architecture == "qwen2" || opt || bert) {
    random_tensor(prefix + "attn_q.bias", {q_dim}, 0.0, 0.5);
    random_tensor(prefix + "attn_k.bias", {kv_dim}, 0.0, 0.5);
    random_tensor(prefix + "attn_v.bias", {kv_dim}, 0.0, 0.5);
  }
  if (architecture == "qwen3") {
    random_tensor(prefix + "attn_q_norm.weight", {shape.head_dim}, 1.0, 0.3);
    random_tensor(prefix + "attn_k_norm.weight", {shape.head_dim}, 1.0, 0.3);
  }
}

void TinyModel::norm(const std::string& architecture, const std::string& stem, int n) {
  random_tensor(stem + ".weight", {n}, 1.0, 0.3);
  if (architecture == "falcon" || architecture == "opt" || architecture == "bert")
    random_tensor(stem + ".bias", {n}, 0.0, 0.3);
}

void TinyModel::matrix(const std::string& name, int n_cols, int n_rows) {
  // The spread keeps the matrix's products with normed inputs at a size of one or two.
  random_tensor(name, {n_cols, n_rows}, 0.0, 2.5 / std::sqrt(n_cols));
}

TinyModel& TinyModel::without_key(const std::string& name) {
  keys_.erase(name);
  return *this;
}

TinyModel& TinyModel::tensor(const std::string& name, DType dtype, const std::vector<int64_t>& shape,
                             Bytes data) {
  tensors_[name] = {dtype, shape, std::move(data)};
  return *this;
}

TinyModel& TinyModel::tensor(const std::string& name, const std::vector<int64_t>& shape,
                             const std::vector<float>& values) {
  Bytes data;
  append_bytes(data, values.data(), values.size() * sizeof(float));
  return tensor(name, DType::kF32, shape, std::move(data));
}

TinyModel& TinyModel::random_tensor(const std::string& name, const std::vector<int64_t>& shape, double base,
                                    double spread) {
  uint32_t seed = 2166136261u;  // FNV-1a: the same on every platform, unlike std::hash
  for (const char c : name) seed = (seed ^ static_cast<uint8_t>(c)) * 16777619u;
  std::mt19937 random(seed);
  int64_t n = 1;
  for (const int64_t size : shape) n *= size;
  std::vector<float> values;
  for (int64_t i = 0; i < n; ++i) {
    const double unit = static_cast<double>(random()) / 4294967296.0;  // [0, 1)
    values.push_back(static_cast<float>(base + spread * (2 * unit - 1)));
  }
  return tensor(name, shape, values);
}

TinyModel& TinyModel::without_tensor(const std::string& name) {
  tensors_.erase(name);
  return *this;
}

TinyModel& TinyModel::powerinfer() {
  magic_ = "PWRI";
  for (int i = 0; i < shape_.n_layers; ++i) {
    const std::string prefix = "blk." + std::to_string(i) + ".";
    const int rank = 8 + 4 * i;
    without_tensor(prefix + "ffn_down.weight");
    if (tensors_.erase(prefix + "ffn_down.bias") != 0) {
      random_tensor(prefix + "ffn_down_t.bias", {shape_.d_model}, 0.0, 0.5);
    }
    random_tensor(prefix + "ffn_down_t.weight", {shape_.d_model, shape_.d_ff}, 0.0,
                  2.5 / std::sqrt(shape_.d_ff));
    matrix(prefix + "fc1.weight", shape_.d_model, rank);
    matrix(prefix + "fc2.weight", rank, shape_.d_ff);
  }
  return *this;
}

void TinyModel::write(const std::filesystem::path& path) const {
  GgufWriter writer;
  writer.magic(magic_);
  for (const auto& [name, add] : keys_) add(writer);
  for (const auto& [name, tensor] : tensors_) writer.tensor(name, tensor.dtype, tensor.shape, tensor.data);
  writer.write(path);
}

}  // namespace hearth::test
