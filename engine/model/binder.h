// Looks up a model file's tensors by name for bind_weights(), and checks their shapes.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/model_file.h"
#include "engine/model/model_spec.h"
#include "engine/model/weights.h"
#include "kernels/matrix.h"

namespace hearth {

/// Looks up tensors, records which ones were looked up, and copies vectors to one buffer. Functions that
/// return a tensor throw ModelFileError if it is missing, unless they are called optional_, or if it has
/// another shape. Each tensor of vectors must be looked up at most once, because the buffer has room for one
/// copy.
class Binder {
 public:
  /// The file must outlive this object and what it returns.
  explicit Binder(const ModelFile& file);

  /// Returns a matrix [n_rows, n_cols].
  Matrix matrix(const std::string& name, int64_t n_rows, int64_t n_cols);

  /// Returns the matrices [n_rows, n_cols] of n experts, stacked in one tensor.
  Matrix matrices(const std::string& name, int64_t n, int64_t n_rows, int64_t n_cols);

  /// Returns a tensor that consists of n vectors [n_floats], such as a norm's weights or biases.
  const float* vectors(const std::string& name, int64_t n, int64_t n_floats) {
    return floats(require(name, {n_floats, n, 1, 1}));
  }

  /// Returns vectors [n, n_floats] transposed: [n_floats, n]. The tensor may have a dimension of 1 between.
  const float* turned_vectors(const std::string& name, int64_t n, int64_t n_floats);

  /// Like vectors(), but returns null if the file has no such tensor.
  const float* optional_vectors(const std::string& name, int64_t n, int64_t n_floats) {
    return has(name) ? vectors(name, n, n_floats) : nullptr;
  }

  const float* vector(const std::string& name, int64_t n) { return floats(require(name, {n, 1, 1, 1})); }

  /// Returns a vector [n] as floats, or null if the file has no such tensor.
  const float* optional_vector(const std::string& name, int64_t n) {
    return has(name) ? vector(name, n) : nullptr;
  }

  /// Returns STEM.weight as a matrix, and STEM.bias if the file has it or bias_required is set.
  Linear linear(const std::string& stem, int64_t n_rows, int64_t n_cols, bool bias_required = false);

  NormWeights norm(const std::string& stem, int64_t n, const Architecture& arch);

  /// Returns the number of rows of a matrix.
  int64_t rows_of(const std::string& name) const { return found(name).shape[1]; }

  bool has(const std::string& name) const { return file_.find_tensor(name) != nullptr; }

  /// Accepts tensors of a layer that have no role. `stems` are their names without the layer's prefix and
  /// without "weight" or "bias"; the file may lack them.
  void pass_over(const std::string& prefix, std::initializer_list<std::string_view> stems);

  /// Throws ModelFileError with 'FILE: tensor "NAME"' and the sentence.
  [[noreturn]] void fail_tensor(std::string_view name, const std::string& sentence) const;

  /// Throws if the file has a tensor that was never looked up. Ignores tensors of layers that are not run.
  void refuse_unused(const ModelSpec& spec) const;

  std::vector<Weights::Line> take_vectors() { return std::move(lines_); }

 private:
  const TensorInfo& found(const std::string& name) const;
  const TensorInfo& require(const std::string& name, const std::array<int64_t, 4>& expected);
  /// Returns room for n floats that starts on a cache line.
  float* room(int64_t n);
  const float* floats(const TensorInfo& tensor);

  const ModelFile& file_;
  std::vector<Weights::Line> lines_;
  size_t used_floats_ = 0;
  std::set<std::string_view> used_;
};

/// Returns rows [begin, begin + n) of a matrix and of its bias.
Linear rows_of(const Linear& all, int64_t begin, int64_t n);

}  // namespace hearth
