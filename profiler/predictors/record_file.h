// What one layer's predictor is trained on, on disk: for every recorded token the predictor's input and what
// each neuron contributed.
//
// Texts of useful length record more than memory holds, so rows are appended to one file per layer and mapped
// when that layer is trained. A row is fixed in size, so a file that an interrupted run left behind is cut to
// the rows that all layers have and goes on.
//
// A predictor without biases says the same of any multiple of its input, and norms make neurons do so too:
// inputs are kept with a root mean square of 1, contributions beside that unit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <vector>

#include "engine/model/gguf/mapped_file.h"

namespace hearth {

/// A contribution, |value| times the norm of the neuron's down column over the root mean square of the
/// predictor's input, in steps of an eighth of an octave: 0 is none, 1 to 255 are 2^-16 to 2^16.
uint8_t contribution_code(float contribution);
/// What a code stands for; 0 for 0.
float contribution_of(uint8_t code);

struct RecordShape {
  int layer = 0;
  int d_model = 0;
  int d_ff = 0;

  /// Bytes of a token: float scale, half input [d_model], code [d_ff].
  size_t row_bytes() const;
  bool operator==(const RecordShape&) const = default;
};

/// "layer-007.record" in the folder.
std::filesystem::path record_path(const std::filesystem::path& folder, int layer);

/// Appends rows. One thread.
class RecordWriter {
 public:
  /// Goes on behind the first n_rows rows of a file, or begins one for n_rows = 0. Throws std::runtime_error
  /// (one sentence) if there are fewer, or the file cannot be written.
  RecordWriter(const std::filesystem::path& path, const RecordShape& shape, int64_t n_rows);
  RecordWriter(RecordWriter&&) = default;

  /// One token: its input x [d_model] as it is, contributions as codes [d_ff].
  void append(const float* x, std::span<const uint8_t> codes);
  /// Hands what was appended to the system. Throws std::runtime_error (one sentence).
  void flush();

 private:
  std::filesystem::path path_;
  RecordShape shape_;
  std::ofstream out_;
  std::vector<std::byte> row_;
};

/// A file's rows, mapped. Const, any thread.
class RecordFile {
 public:
  /// Throws std::runtime_error (one sentence) if it is not of this shape or has fewer than n_rows rows; rows
  /// behind those are not looked at.
  RecordFile(const std::filesystem::path& path, const RecordShape& shape, int64_t n_rows);

  const RecordShape& shape() const { return shape_; }
  int64_t n_rows() const { return n_rows_; }
  /// The root mean square that the row's input had.
  float scale(int64_t row) const;
  /// x [d_model] = the row's input, its root mean square 1.
  void input(int64_t row, float* x) const;
  const uint8_t* codes(int64_t row) const;  // [d_ff]

 private:
  const std::byte* row(int64_t i) const;

  gguf::MappedFile file_;
  RecordShape shape_;
  int64_t n_rows_;
};

/// Complete rows of a file of this shape; 0 if there is none. Throws std::runtime_error (one sentence) if it
/// is another's.
int64_t recorded_rows(const std::filesystem::path& path, const RecordShape& shape);

}  // namespace hearth
