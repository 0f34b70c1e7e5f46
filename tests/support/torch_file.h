// Writes files of one tensor in torch.save's format, for tests: well-formed by default, malformed after
// changes to the members.
//
// Not shared by threads.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/gguf_writer.h"

namespace hearth::test {

struct TorchFile {
  std::string storage_type = "IntStorage";
  Bytes elements;  // the entry data/0
  int32_t storage_elements = 0;
  int32_t offset = 0;
  std::vector<int32_t> shape, strides;
  std::string byte_order = "little";  // empty to leave out the entry, as before PyTorch 2.1
  Bytes pickle;                       // empty to make it from the members above

  /// Makes a file for a vector of these elements. T is the type that `storage_type` names.
  template <typename T>
  static TorchFile of(std::string storage_type, const std::vector<T>& values) {
    TorchFile file;
    file.storage_type = std::move(storage_type);
    for (const T value : values) append_number(file.elements, value);
    file.storage_elements = static_cast<int32_t>(values.size());
    file.shape = {file.storage_elements};
    file.strides = {1};
    return file;
  }

  Bytes bytes() const;
};

/// Makes a zip archive of these entries, uncompressed, with sizes after the data as PyTorch writes them.
Bytes zip_archive(const std::vector<std::pair<std::string, Bytes>>& entries, uint16_t method = 0);

/// The bytes of a text.
Bytes text_bytes(std::string_view text);

}  // namespace hearth::test
