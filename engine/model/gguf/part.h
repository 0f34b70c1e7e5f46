// Parses one GGUF file (a whole model or one part of a split model) from its bytes and checks everything.
// Also parses the file names of split models, NAME-00001-of-00003.gguf.
//
// Called by ModelFile::open for each mapped file, including the search for the other parts, and by the
// fuzzer. The format is specified in gguf.md of ggml: header, keys with values, tensor entries, padding,
// tensor data. Pure; any thread.
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

/// Positions of a list's entries, sorted by name: binary search finds one, equal neighbors are duplicates.
/// Sorted rather than hashed, so that no choice of names makes it slow, at four bytes per entry.
using NameOrder = std::vector<uint32_t>;

struct Part {
  bool powerinfer = false;     // magic "PWRI" instead of "GGUF"; otherwise the file is ordinary GGUF
  std::vector<KeyValue> keys;  // file order
  NameOrder key_order;
  std::vector<TensorInfo> tensors;  // file order

  /// Null if absent.
  const KeyValue* find_key(std::string_view key) const;
};

/// Parses `bytes`, a whole file; the result points into them. `file` is a file_label. Throws ModelFileError.
Part parse_part(std::span<const std::byte> bytes, const std::string& file);

/// Returns the sorted order of `tensors`. Throws ModelFileError if a name occurs twice.
NameOrder order_tensors(std::span<const TensorInfo> tensors, const std::string& file);

/// Null if absent. `order` is order_tensors(tensors).
const TensorInfo* find_tensor(std::span<const TensorInfo> tensors, const NameOrder& order,
                              std::string_view name);

/// Five times the tensors of the largest mixture of experts stored one by one (61 layers of 256 experts with
/// 3 each). Limits the tables to about 40 MB, whatever a file claims.
inline constexpr uint64_t kMaxTensors = uint64_t{1} << 18;

struct SplitName {
  std::filesystem::path folder;
  std::string stem;  // NAME
  int number = 0;    // 1-based
  int count = 0;
};

/// Returns nullopt if the name does not have that form, number or count is 0, or number exceeds count.
std::optional<SplitName> parse_split_name(const std::filesystem::path& path);

/// The path of part `number` (1-based) of the same model.
std::filesystem::path split_path(const SplitName& name, int number);

}  // namespace hearth::gguf
