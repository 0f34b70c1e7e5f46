// Looks up tensors and copies vectors. See the header.
#include "engine/model/binder.h"

#include "kernels/base/file_error.h"
#include "kernels/quant/dequantize.h"

namespace hearth {
namespace {

// Each vector starts on a cache line, which makes the kernels' loads fast.
constexpr size_t kLineFloats = 16;
constexpr size_t padded(int64_t n) {
  return (static_cast<size_t>(n) + kLineFloats - 1) / kLineFloats * kLineFloats;
}

std::string shape_text(const TensorInfo& tensor) {
  std::string text = "[";
  for (int i = 0; i < tensor.n_dims; ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(tensor.shape[static_cast<size_t>(i)]);
  }
  return text + "]";
}

/// Whether the Binder copies a tensor with this name even if it has several rows.
bool has_vectors(std::string_view name) {
  return name.ends_with(".bias") || name.ends_with("_norm.weight") || name.ends_with(".ssm_conv1d.weight") ||
         name.find(".ssm_conv1d_") != std::string_view::npos || name.ends_with(".ssm_a") ||
         name.ends_with(".ssm_d") || name.ends_with(".altup_predict_coef.weight") ||
         name.ends_with(".altup_correct_coef.weight") || name.ends_with(".shortconv.conv.weight");
}

/// Whether a tensor has no role in the layers that are run. It may belong to a later layer. In one file,
/// Ollama stores a language model of the Qwen3.5 family (gated delta nets) or Gemma 4 (layer_embeddings),
/// its encoders of images and sound, and the layers that predict later tokens.
bool is_beyond(std::string_view name, const ModelSpec& spec) {
  for (int i = spec.n_layers; i < spec.n_layers + spec.n_unused_layers; ++i) {
    if (name.starts_with("blk." + std::to_string(i) + ".")) return true;
  }
  // An assistant's tables of centroids would only save time.
  if (spec.arch.assists && (name.starts_with("nextn.") || name.starts_with("masked_embd_"))) return true;
  if (spec.arch.layer_embeddings && name.starts_with("a.")) return true;
  const bool with_encoder =
      spec.arch.recurrent == RecurrentKind::kGatedDelta || spec.arch.layer_embeddings || spec.arch.rope_axes;
  return with_encoder && (name.starts_with("mtp.") || name.starts_with("v.") || name.starts_with("mm."));
}

}  // namespace

Binder::Binder(const ModelFile& file) : file_(file) {
  size_t n_floats = 0;
  for (const TensorInfo& tensor : file.tensors()) {
    const int64_t n_rows = tensor.shape[1] * tensor.shape[2] * tensor.shape[3];
    if (n_rows == 1 || has_vectors(tensor.name)) n_floats += padded(tensor.shape[0] * n_rows);
  }
  lines_.resize(n_floats / kLineFloats);
}

Matrix Binder::matrix(const std::string& name, int64_t n_rows, int64_t n_cols) {
  const TensorInfo& tensor = require(name, {n_cols, n_rows, 1, 1});
  return Matrix{tensor.data, tensor.dtype, n_rows, n_cols};
}

Matrix Binder::matrices(const std::string& name, int64_t n, int64_t n_rows, int64_t n_cols) {
  const TensorInfo& tensor = require(name, {n_cols, n_rows, n, 1});
  return Matrix{tensor.data, tensor.dtype, n * n_rows, n_cols};
}

const float* Binder::turned_vectors(const std::string& name, int64_t n, int64_t n_floats) {
  const bool between = found(name).shape == std::array<int64_t, 4>{n_floats, 1, n, 1};
  const TensorInfo& tensor =
      between ? require(name, {n_floats, 1, n, 1}) : require(name, {n_floats, n, 1, 1});
  std::vector<float> rows(static_cast<size_t>(n * n_floats));
  dequantize_row(tensor.dtype, tensor.data, n * n_floats, rows.data());
  float* out = room(n * n_floats);
  for (int64_t row = 0; row < n; ++row) {
    for (int64_t i = 0; i < n_floats; ++i) out[i * n + row] = rows[static_cast<size_t>(row * n_floats + i)];
  }
  return out;
}

Linear Binder::linear(const std::string& stem, int64_t n_rows, int64_t n_cols, bool bias_required) {
  const std::string bias = stem + ".bias";
  return {matrix(stem + ".weight", n_rows, n_cols),
          bias_required ? vector(bias, n_rows) : optional_vector(bias, n_rows)};
}

NormWeights Binder::norm(const std::string& stem, int64_t n, const Architecture& arch) {
  const bool has_bias = arch.norm == NormKind::kLayer && arch.norm_bias;
  // One converter's files of falcon-h1 have a norm without a suffix.
  const bool bare = has(stem) && !has(stem + ".weight");
  return {vector(bare ? stem : stem + ".weight", n), has_bias ? vector(stem + ".bias", n) : nullptr};
}

void Binder::pass_over(const std::string& prefix, std::initializer_list<std::string_view> stems) {
  for (const std::string_view stem : stems) {
    for (const std::string_view suffix : {"weight", "bias"}) {
      const TensorInfo* tensor = file_.find_tensor(prefix + std::string(stem) + std::string(suffix));
      if (tensor != nullptr) used_.insert(tensor->name);
    }
  }
}

void Binder::fail_tensor(std::string_view name, const std::string& sentence) const {
  file_error::fail(file_error::file_label(file_.path().string()),
                   "tensor " + file_error::quoted(name) + sentence);
}

void Binder::refuse_unused(const ModelSpec& spec) const {
  for (const TensorInfo& tensor : file_.tensors()) {
    if (used_.contains(tensor.name) || is_beyond(tensor.name, spec)) continue;
    fail_tensor(tensor.name, " is not a part of architecture " + std::string(spec.arch.name) + " with " +
                                 std::to_string(spec.n_layers) +
                                 " layers as Hearth knows it, and ignoring it would give wrong answers");
  }
}

const TensorInfo& Binder::found(const std::string& name) const {
  const TensorInfo* tensor = file_.find_tensor(name);
  if (tensor == nullptr) {
    fail_tensor(name, " is missing; the file is incomplete or made for another program: download it again");
  }
  return *tensor;
}

const TensorInfo& Binder::require(const std::string& name, const std::array<int64_t, 4>& expected) {
  const TensorInfo& tensor = found(name);
  if (tensor.shape != expected) {
    TensorInfo right;
    right.shape = expected;
    right.n_dims = expected[2] > 1 ? 3 : expected[1] > 1 ? 2 : 1;
    fail_tensor(name, " is " + shape_text(tensor) + ", expected " + shape_text(right) +
                          " by the file's own keys; the file is damaged");
  }
  used_.insert(tensor.name);
  return tensor;
}

float* Binder::room(int64_t n) {
  float* out = lines_[used_floats_ / kLineFloats].floats;
  used_floats_ += padded(n);
  return out;
}

const float* Binder::floats(const TensorInfo& tensor) {
  const int64_t n = tensor.shape[0] * tensor.shape[1];
  float* out = room(n);
  dequantize_row(tensor.dtype, tensor.data, n, out);
  return out;
}

Linear rows_of(const Linear& all, int64_t begin, int64_t n) {
  return {{all.weight.row(begin), all.weight.dtype, n, all.weight.n_cols},
          all.bias == nullptr ? nullptr : all.bias + begin};
}

}  // namespace hearth
