// The importance of the columns of a model's matrices, for quantize_row_fitted(). It comes from Hearth's
// activity files or from llama.cpp's importance matrices.
//
// An error in a column does harm in proportion to the mean square of the column's inputs. An importance
// matrix has these means for most matrices. An activity file has, for each neuron, how often it was active
// and the sum of its values, which are the inputs of a down projection's columns. Bytes are not trusted. Any
// thread once read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/model_file.h"

namespace hearth {

class Importance {
 public:
  /// Without importance: all columns count alike.
  Importance() = default;

  /// Reads an activity file of this model, or an importance matrix (.gguf, or .dat as llama.cpp wrote it
  /// before). Throws std::runtime_error (one sentence) if it is neither, is damaged, is another model's, or
  /// says nothing about any matrix. ffn_activation: as read_model_spec() takes it.
  static Importance read(const std::filesystem::path& path, const ModelFile& model,
                         std::string_view ffn_activation);

  /// Importance [n_cols] of the tensor's matrix number `matrix` (0 unless it is a stack of experts). Empty if
  /// unknown.
  std::span<const float> of(const TensorInfo& tensor, int64_t matrix) const;

  /// "activity of 4 down projections".
  const std::string& sentence() const { return sentence_; }

 private:
  friend class ImportanceReader;
  std::map<std::string, std::vector<float>, std::less<>> columns_;  // [matrices, n_cols]
  std::string sentence_;
};

/// Reads llama.cpp's older importance matrix from its bytes: for each tensor the mean squares of its columns.
/// `file` is a file_error::file_label. Throws ModelFileError. Public for the fuzzer.
std::map<std::string, std::vector<float>, std::less<>> read_old_importance(std::span<const std::byte> bytes,
                                                                           const std::string& file);

}  // namespace hearth
