// Reads the importance of the columns of a model's matrices, for quantize_row_fitted(). The sources are
// Hearth's activity files and llama.cpp's importance matrices.
//
// The harm of an error in a column is proportional to the mean square of the column's inputs. An importance
// matrix has these means for most matrices. An activity file has, for each neuron, how often it was active
// and the sum of its activations' absolute values. These activations are the inputs of a column of the down
// projection. The files' bytes are not trusted. Once read, the object can be used by any thread.
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

  /// Reads an activity file of this model, or an importance matrix of llama.cpp (.gguf, or .dat in the older
  /// format). Throws std::runtime_error (one sentence) if the file is neither, is damaged, belongs to another
  /// model, or has no entry for any of the model's matrices. ffn_activation: as for read_model_spec().
  static Importance read(const std::filesystem::path& path, const ModelFile& model,
                         std::string_view ffn_activation);

  /// Returns the importance [n_cols] of each column in one of the tensor's matrices. `matrix` is the index of
  /// this matrix; it is 0 unless the tensor is a stack of experts. The result is empty if the importance is
  /// unknown.
  std::span<const float> of(const TensorInfo& tensor, int64_t matrix) const;

  /// Returns a phrase about the source: "activity of 4 down projections".
  const std::string& sentence() const { return sentence_; }

 private:
  friend class ImportanceReader;
  std::map<std::string, std::vector<float>, std::less<>> columns_;  // [matrices, n_cols]
  std::string sentence_;
};

/// Reads the bytes of llama.cpp's older importance matrix format. Returns, for each tensor, the mean squares
/// of its columns' inputs. `file` is a file_error::file_label. Throws ModelFileError. Public so that it can
/// be fuzzed.
std::map<std::string, std::vector<float>, std::less<>> read_old_importance(std::span<const std::byte> bytes,
                                                                           const std::string& file);

}  // namespace hearth
