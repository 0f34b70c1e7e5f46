// Whole models of a few thousand weights, written as GGUF files: correct by default, and changed key by key
// and tensor by tensor by tests of their readers.
//
//   TinyModel("qwen2").without_tensor("blk.0.attn_q.bias").write(folder / "model.gguf");
//
// Weights are pseudo-random and equal in every run. Not shared by threads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/support/gguf_writer.h"

namespace hearth::test {

struct TinyShape {
  int n_layers = 2;
  int d_model = 32;
  int d_ff = 48;
  int n_heads = 4;
  int n_kv_heads = 2;
  int head_dim = 8;
  int n_vocab = 259;  // at least 259: three special tokens and every byte
  int context = 64;
};

class TinyModel {
 public:
  /// Makes a model with the keys and tensors of that architecture's files, and a SentencePiece vocabulary.
  explicit TinyModel(const std::string& architecture = "llama", const TinyShape& shape = {});

  /// Adds or replaces a key; T is a number, bool or std::string.
  template <typename T>
  TinyModel& key(const std::string& name, T value) {
    keys_[name] = [name, value](GgufWriter& writer) { writer.key(name, value); };
    return *this;
  }
  TinyModel& key(const std::string& name, const char* text) { return key(name, std::string(text)); }
  template <typename T>
  TinyModel& array(const std::string& name, std::vector<T> values) {
    keys_[name] = [name, values](GgufWriter& writer) { writer.array(name, values); };
    return *this;
  }
  TinyModel& without_key(const std::string& name);

  /// Adds or replaces a tensor; shape[0] is contiguous.
  TinyModel& tensor(const std::string& name, DType dtype, const std::vector<int64_t>& shape, Bytes data);
  TinyModel& tensor(const std::string& name, const std::vector<int64_t>& shape,
                    const std::vector<float>& values);
  /// F32, uniform in base +- spread; the numbers depend on the name only.
  TinyModel& random_tensor(const std::string& name, const std::vector<int64_t>& shape, double base,
                           double spread);
  TinyModel& without_tensor(const std::string& name);

  /// Makes it a PowerInfer file: magic PWRI, ffn_down_t in place of ffn_down (both random), and a predictor
  /// of rank 8 + 4 * layer in every layer. Call it last, except for changes to these tensors.
  TinyModel& powerinfer();

  void write(const std::filesystem::path& path) const;

 private:
  struct Tensor {
    DType dtype;
    std::vector<int64_t> shape;
    Bytes data;
  };
  void add_vocabulary(int n_vocab);
  void add_layer(const std::string& architecture, const std::string& prefix, const TinyShape& shape);
  void norm(const std::string& architecture, const std::string& stem, int n);
  void matrix(const std::string& name, int n_cols, int n_rows);

  TinyShape shape_;
  std::string magic_ = "GGUF";
  std::map<std::string, std::function<void(GgufWriter&)>> keys_;
  std::map<std::string, Tensor> tensors_;
};

}  // namespace hearth::test
