// Reads files in Hugging Face's safetensors format: a length, a JSON header that lists tensors, their bytes.
//
// Files are not trusted: every number in the header is checked before it is used
// (tests/fuzz/fuzz_safetensors.cpp). Used by Checkpoint for each file of a folder. The README of the
// safetensors library describes the format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::convert {

/// Element types that conversion reads. Others are stored by name and refused when they are used.
enum class ElementType : uint8_t { kF32, kF16, kBF16, kF64, kF8E4M3, kU8, kOther };

struct StoredTensor {
  std::string name;
  ElementType type = ElementType::kOther;
  std::string type_name;              // the file's spelling: "BF16"
  std::vector<int64_t> shape;         // outermost first, as in PyTorch; empty: one number
  std::span<const std::byte> bytes;   // in the file's mapping
  const std::string* file = nullptr;  // a file_label, for messages; outlives the tensor

  int64_t n_elements() const;
};

/// Bytes of one element; 0 for kOther.
int element_bytes(ElementType type);

/// The tensors in the order of their bytes. `bytes` are the whole file and must outlive the result, as must
/// `label`, a file_label. Throws ModelFileError (one sentence) if the header is damaged, a tensor lies
/// outside of the file, or two tensors overlap.
std::vector<StoredTensor> read_safetensors(std::span<const std::byte> bytes, const std::string& label);

}  // namespace hearth::convert
