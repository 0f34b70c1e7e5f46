// Reads one tensor of one dimension, or a dict of matrices, written by torch.save, without PyTorch. PyTorch
// 1.6 and later write a zip archive that holds a pickle and the elements.
//
// The archive: entries are stored uncompressed. The central directory is authoritative (PKWARE's APPNOTE
// 4.3), as it is for PyTorch. The record for archives above 4 GiB (zip64) is not read, because no file of
// counts is that large. Checksums are not compared: a wrong count changes where a neuron lies, not the
// results.
//
// The pickle: a pickle is a program for a stack machine that can name any Python function. This reader knows
// the operations that torch.save writes for a tensor (pickle protocol 2) and three names. It builds
// descriptions and calls nothing; everything else is refused.
//
// Used for PowerInfer's activation counts, and for the state dicts of its predictors. Element types: int32,
// int64, float16, bfloat16, float32, float64. A view into a larger tensor gives only the view's elements.
// Bytes are not trusted. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hearth {

/// The elements as doubles (integers beyond 2^53 are rounded). `bytes` is a whole file, `file` its
/// file_error::file_label. Throws ModelFileError. The caller checks whether the numbers make sense.
std::vector<double> read_torch_vector(std::span<const std::byte> bytes, const std::string& file);

struct TorchMatrix {
  std::string name;  // "fc1.weight"
  int64_t n_rows = 0, n_cols = 0;
  std::vector<float> values;  // [n_rows, n_cols]
};

/// The matrices of a state dict, in its order, rounded to float32. `bytes` is a whole file, `file` its
/// file_error::file_label. with_values: if false, leaves the values empty and reads only the pickle. Throws
/// ModelFileError if the file is damaged or is not a dict of matrices. The caller checks names and sizes.
std::vector<TorchMatrix> read_torch_state(std::span<const std::byte> bytes, const std::string& file,
                                          bool with_values = true);

/// The facts in data.pkl about a one-dimensional tensor. Element i is at `offset` + i * `stride` of the
/// storage, counted in elements. All numbers are checked: none is negative, and all elements lie within
/// `storage_elements`.
struct PickledTensor {
  std::string_view storage_type;  // "IntStorage"
  std::string_view storage_key;   // "0": the elements are in the entry data/0
  int64_t storage_elements = 0;
  int64_t offset = 0;
  int64_t size = 0;
  int64_t stride = 0;
};

/// Reads `pickle`, the whole entry data.pkl; the result points into it. `file` is a file_error::file_label.
/// Throws ModelFileError if it is damaged, not a tensor of one dimension, or has elements outside its
/// storage. Public so that it can be fuzzed without an archive around it.
PickledTensor read_tensor_pickle(std::span<const std::byte> pickle, const std::string& file);

/// The facts in data.pkl about a matrix of a state dict. Element (r, c) is at `offset` + r * `row_stride` + c
/// * `col_stride` of the storage, counted in elements. All numbers are checked: none is negative, and all
/// elements lie within `storage_elements`.
struct PickledMatrix {
  std::string_view name;
  std::string_view storage_type, storage_key;
  int64_t storage_elements = 0, offset = 0;
  int64_t n_rows = 0, n_cols = 0;
  int64_t row_stride = 0, col_stride = 0;
};

/// Like read_tensor_pickle(), for a dict of matrices. The result is not empty.
std::vector<PickledMatrix> read_state_pickle(std::span<const std::byte> pickle, const std::string& file);

}  // namespace hearth
