// Parses and checks the bytes of one GGUF file, which is a whole model or one part of a split model. Also
// parses the file names of split models, NAME-00001-of-00003.gguf.
//
// Called by ModelFile::open for each mapped file and to find the other parts of a split model, and by the
// fuzzer. ggml's gguf.md specifies the format: header, keys with values, tensor entries, padding, tensor
// data. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/gguf/gguf_value.h"
#include "engine/model/model_file.h"

namespace hearth::gguf {

/// The positions of a list's entries, sorted by the entries' names. A binary search finds an entry, and equal
/// names are adjacent. Unlike in a hash table, no choice of names makes the search slow. The list takes four
/// bytes per entry.
using NameOrder = std::vector<uint32_t>;

struct Part {
  bool powerinfer = false;     // the magic is "PWRI" instead of "GGUF"; otherwise the format is equal
  std::vector<KeyValue> keys;  // file order
  NameOrder key_order;
  std::vector<TensorInfo> tensors;  // file order

  /// Returns null if the key is absent.
  const KeyValue* find_key(std::string_view key) const;
};

/// Parses `bytes`, a whole file. The result refers to these bytes. `file` is a file_label. Throws
/// ModelFileError.
Part parse_part(std::span<const std::byte> bytes, const std::string& file);

/// Returns the positions of `tensors`, sorted by name. Throws ModelFileError if a name occurs twice.
NameOrder order_tensors(std::span<const TensorInfo> tensors, const std::string& file);

/// Returns null if the tensor is absent. `order` is order_tensors(tensors).
const TensorInfo* find_tensor(std::span<const TensorInfo> tensors, const NameOrder& order,
                              std::string_view name);

/// Maximum number of tensors in a file. The largest mixture of experts has a fifth of this number if each
/// expert's matrices are separate tensors (61 layers, 256 experts, 3 matrices each). The limit keeps the
/// tables below about 40 MB, whatever a file claims.
inline constexpr uint64_t kMaxTensors = uint64_t{1} << 18;

struct SplitName {
  std::filesystem::path folder;
  std::string stem;  // NAME
  int number = 0;    // 1-based
  int count = 0;
};

/// Parses the file name of a part, NAME-00001-of-00003.gguf. Returns nullopt if the name does not have that
/// form, if the number or the count is 0, or if the number exceeds the count.
std::optional<SplitName> parse_split_name(const std::filesystem::path& path);

/// Returns the path of part `number` (from 1) of the model that `name` belongs to.
std::filesystem::path split_path(const SplitName& name, int number);

}  // namespace hearth::gguf
