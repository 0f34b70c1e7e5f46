// Records the data that predictors are trained on. A model runs texts, and for every token and layer, the
// predictor's input and the neurons' contributions are written to disk.
//
// A useful amount of text gives more data than fits in memory. Therefore rows are appended to one file per
// layer, which is mapped when the layer is trained. Rows have a fixed size, so an interrupted recording can
// continue: each file is first cut to the rows that all layers have.
//
// A predictor has no biases, and the neurons' inputs are normalized, so scaling the input does not change
// which neurons are active or proposed. Inputs are therefore stored with a root mean square of 1, and
// contributions are scaled by the same factor.
//
// Recording uses the thread that runs the model. The model must have been loaded dense on the CPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <span>
#include <vector>

#include "engine/forward/ffn_observers.h"
#include "engine/model/gguf/mapped_file.h"
#include "engine/model_runtime.h"

namespace hearth {

/// Returns the code of a contribution: the absolute value of the neuron's activation times the norm of its
/// down column, divided by the root mean square of the predictor's input. Code 0 stands for no contribution,
/// and any other code for 2^((code - 128) / 8).
uint8_t contribution_code(float contribution);
/// Returns the contribution that a code stands for; 0 for code 0.
float contribution_of(uint8_t code);

struct RecordShape {
  int layer = 0;
  int d_model = 0;
  int d_ff = 0;

  /// The bytes of one token's row: the scale as a float, the input [d_model] as F16, and the codes [d_ff].
  size_t row_bytes() const;
  bool operator==(const RecordShape&) const = default;
};

/// "layer-007.record" in the folder.
std::filesystem::path record_path(const std::filesystem::path& folder, int layer);

/// Appends rows. One thread.
class RecordWriter {
 public:
  /// Continues a file after its first n_rows rows, or creates it if n_rows is 0. Throws std::runtime_error
  /// (one sentence) if the file has fewer rows or cannot be written.
  RecordWriter(const std::filesystem::path& path, const RecordShape& shape, int64_t n_rows);
  RecordWriter(RecordWriter&&) = default;

  /// Appends one token: the predictor's unscaled input x [d_model], and the codes [d_ff] of the neurons'
  /// contributions.
  void append(const float* x, std::span<const uint8_t> codes);
  /// Writes all appended rows. Throws std::runtime_error (one sentence).
  void flush();

 private:
  std::filesystem::path path_;
  RecordShape shape_;
  std::ofstream out_;
  std::vector<std::byte> row_;
};

/// A mapped file of rows. Constant after construction; any thread.
class RecordFile {
 public:
  /// Maps the file. Ignores all rows after the first n_rows. Throws std::runtime_error (one sentence) if the
  /// file has another shape or fewer rows.
  RecordFile(const std::filesystem::path& path, const RecordShape& shape, int64_t n_rows);

  const RecordShape& shape() const { return shape_; }
  int64_t n_rows() const { return n_rows_; }
  /// The root mean square that the row's input had before it was scaled to 1.
  float scale(int64_t row) const;
  /// Sets x [d_model] to the row's input, scaled to a root mean square of 1.
  void input(int64_t row, float* x) const;
  const uint8_t* codes(int64_t row) const;  // [d_ff]

 private:
  const std::byte* row(int64_t i) const;

  gguf::MappedFile file_;
  RecordShape shape_;
  int64_t n_rows_;
};

/// Returns the number of complete rows in a file of this shape, or 0 if there is no file. Throws
/// std::runtime_error (one sentence) if the file is not a recording of this shape.
int64_t recorded_rows(const std::filesystem::path& path, const RecordShape& shape);

/// The shape of one layer's recording.
RecordShape record_shape(const ModelSpec& spec, int layer);

/// The bytes on disk that n_rows tokens take in the files of all layers.
uint64_t record_bytes(const ModelSpec& spec, int64_t n_rows);

/// Returns the Euclidean norms [d_ff] of a layer's down columns, computed from the file's tensor. REQUIRES:
/// the model's file was loaded without errors.
std::vector<float> down_norms(const ModelFile& file, const ModelSpec& spec, int layer);

struct RecordInputs {
  std::filesystem::path folder;   // where the layers' files are
  std::span<const int32_t> text;  // [n_windows, n_context]; each window is a separate sequence
  int n_context = 512;
};

/// Records the windows that are not recorded yet. Keeps the rows of an interrupted run that all layers have.
/// progress: called after each window with the completed share. Returns the number of rows in each layer's
/// file, which is the number of the text's tokens. Throws std::runtime_error (one sentence) if a file belongs
/// to another model or the disk is full, and passes on what `progress` throws; a later call can continue the
/// recording. REQUIRES: n_context positions fit in the model's KV memory.
int64_t record_activity(ModelRuntime& model, const RecordInputs& inputs,
                        const std::function<void(double)>& progress);

}  // namespace hearth
