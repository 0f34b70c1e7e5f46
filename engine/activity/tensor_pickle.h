// What data.pkl in a PyTorch file says about one tensor: its element type, where its elements are, its shape.
//
// A pickle is a program for a stack machine that can name any Python function. This reader knows the
// operations that torch.save writes for a tensor (pickle protocol 2) and three names; it builds descriptions
// and calls nothing. Everything else is refused. Used by the reader of torch tensors. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace hearth::activity {

/// One-dimensional: element i is at `offset` + i * `stride` of the storage, in elements. All not negative,
/// and checked to lie within `storage_elements`.
struct PickledTensor {
  std::string_view storage_type;  // "IntStorage"
  std::string_view storage_key;   // "0": the elements are in the entry data/0
  int64_t storage_elements = 0;
  int64_t offset = 0;
  int64_t size = 0;
  int64_t stride = 0;
};

/// Reads `pickle`, the whole entry; the result points into it. `file` is a gguf::file_label. Throws
/// ModelFileError: damaged, no tensor, not of one dimension, or with elements outside its storage.
PickledTensor read_tensor_pickle(std::span<const std::byte> pickle, const std::string& file);

}  // namespace hearth::activity
