// Writes files of one tensor in the form of torch.save, for tests: well-formed ones by default, others by
// changing the members.
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
  std::string byte_order = "little";  // empty: no such entry, as before PyTorch 2.1
  Bytes pickle;                       // empty: made from the above

  /// A vector of these elements. T is the type that `storage_type` names.
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

/// A zip archive of these entries, stored uncompressed, with sizes after the data as PyTorch writes them.
Bytes zip_archive(const std::vector<std::pair<std::string, Bytes>>& entries, uint16_t method = 0);

/// The bytes of a text.
Bytes text_bytes(std::string_view text);

}  // namespace hearth::test
