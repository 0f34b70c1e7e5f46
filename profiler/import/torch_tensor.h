// Reads files that torch.save wrote, without PyTorch: a one-dimensional tensor, or a dict of matrices.
// PyTorch 1.6 and later write a zip archive that holds a pickle and the elements.
//
// The archive's entries are stored uncompressed. The reader trusts the central directory rather than the
// entries' own headers (PKWARE's APPNOTE 4.3), as PyTorch does. The record for archives above 4 GiB (zip64)
// is not read, because no file of counts is that large. Checksums are not verified: a wrong count affects
// where a neuron is placed, but not the model's output.
//
// The pickle is a program for a stack machine and can call any Python function by name. This reader supports
// only the operations that torch.save writes for a tensor (pickle protocol 2) and a few function names, and
// refuses everything else. It records which functions the pickle would call, and with which arguments, but
// never calls anything.
//
// Used for PowerInfer's activation counts, and for the state dicts of its predictors. Element types: int32,
// int64, float16, bfloat16, float32, float64. If a tensor is a view into a larger one, only the view's
// elements are read. The bytes are not trusted. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hearth {

/// Returns the elements as doubles (integers beyond 2^53 are rounded). `bytes` is a whole file, and `file`
/// its file_error::file_label. Throws ModelFileError. The caller must check whether the numbers are
/// plausible.
std::vector<double> read_torch_vector(std::span<const std::byte> bytes, const std::string& file);

struct TorchMatrix {
  std::string name;  // "fc1.weight"
  int64_t n_rows = 0, n_cols = 0;
  std::vector<float> values;  // [n_rows, n_cols]
};

/// Returns the matrices of a state dict, in the dict's order, rounded to float32. `bytes` is a whole file,
/// and `file` its file_error::file_label. with_values: if false, reads only the pickle and leaves the values
/// empty. Throws ModelFileError if the file is damaged or is not a dict of matrices. The caller must check
/// names and sizes.
std::vector<TorchMatrix> read_torch_state(std::span<const std::byte> bytes, const std::string& file,
                                          bool with_values = true);

/// A one-dimensional tensor as data.pkl describes it. Element i is element `offset` + i * `stride` of the
/// storage. All numbers are checked: none is negative, and all elements lie within `storage_elements`.
struct PickledTensor {
  std::string_view storage_type;  // "IntStorage"
  std::string_view storage_key;   // for example "0": the elements are in the entry data/0
  int64_t storage_elements = 0;
  int64_t offset = 0;
  int64_t size = 0;
  int64_t stride = 0;
};

/// Reads `pickle`, the whole entry data.pkl. The result points into `pickle`. `file` is a
/// file_error::file_label. Throws ModelFileError if the pickle is damaged, does not describe a tensor of one
/// dimension, or describes elements outside of the storage. Public so that it can be fuzzed without an
/// archive around it.
PickledTensor read_tensor_pickle(std::span<const std::byte> pickle, const std::string& file);

/// A matrix of a state dict as data.pkl describes it. Element (r, c) is element `offset` + r * `row_stride` +
/// c * `col_stride` of the storage. All numbers are checked: none is negative, and all elements lie within
/// `storage_elements`.
struct PickledMatrix {
  std::string_view name;
  std::string_view storage_type, storage_key;
  int64_t storage_elements = 0, offset = 0;
  int64_t n_rows = 0, n_cols = 0;
  int64_t row_stride = 0, col_stride = 0;
};

/// Like read_tensor_pickle(), but for a dict of matrices. The result is never empty.
std::vector<PickledMatrix> read_state_pickle(std::span<const std::byte> pickle, const std::string& file);

}  // namespace hearth
