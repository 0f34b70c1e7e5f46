// Reads files in Hugging Face's safetensors format, which consist of a length, a JSON header that lists the
// tensors, and the tensors' bytes.
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

/// The element types that conversion can read. A tensor of another type is listed with the type's name, and
/// refused when it is used.
enum class ElementType : uint8_t { kF32, kF16, kBF16, kF64, kF8E4M3, kU8, kOther };

struct StoredTensor {
  std::string name;
  ElementType type = ElementType::kOther;
  std::string type_name;              // the file's spelling: "BF16"
  std::vector<int64_t> shape;         // outermost dimension first, as in PyTorch; empty: a single number
  std::span<const std::byte> bytes;   // in the file's mapping
  const std::string* file = nullptr;  // a file_label, for messages; outlives the tensor

  int64_t n_elements() const;
};

/// Bytes of one element; 0 for kOther.
int element_bytes(ElementType type);

/// Returns the tensors, ordered by position in the file. `bytes` is the whole file, and `label` a file_label;
/// both must outlive the result. Throws ModelFileError (one sentence) if the header is damaged, a tensor lies
/// outside of the file, or two tensors overlap.
std::vector<StoredTensor> read_safetensors(std::span<const std::byte> bytes, const std::string& label);

}  // namespace hearth::convert
