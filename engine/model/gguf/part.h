// Parses one GGUF file (a whole model or one part of a split model) from its bytes and checks everything;
// also the file names of split models, NAME-00001-of-00003.gguf.
//
// Called by ModelFile::open for each mapped file, to find the other parts from any one of them, and by the
// fuzzer. The format is described in GGUF's specification (gguf.md of ggml): header, keys with values, tensor
// entries, padding, tensor data. Pure; any thread.
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

/// Positions of a list's entries, sorted by name: binary search to find one, neighbours to see duplicates.
/// Sorted rather than hashed, so that no choice of names makes it slow, and four bytes an entry.
using NameOrder = std::vector<uint32_t>;

struct Part {
  bool powerinfer = false;     // magic "PWRI" instead of "GGUF": PowerInfer's, GGUF in all else
  std::vector<KeyValue> keys;  // file order
  NameOrder key_order;
  std::vector<TensorInfo> tensors;  // file order

  /// Null if absent.
  const KeyValue* find_key(std::string_view key) const;
};

/// Parses `bytes`, a whole file; the result points into them. `file` is a file_label. Throws ModelFileError.
Part parse_part(std::span<const std::byte> bytes, const std::string& file);

/// The order of `tensors`. Throws ModelFileError if a name occurs twice.
NameOrder order_tensors(std::span<const TensorInfo> tensors, const std::string& file);

/// Null if absent. `order` is order_tensors(tensors).
const TensorInfo* find_tensor(std::span<const TensorInfo> tensors, const NameOrder& order,
                              std::string_view name);

/// Five times the tensors of the largest mixture of experts stored one by one (61 layers of 256 experts of
/// 3): bounds what the tables take, some 40 MB, whatever a file claims.
inline constexpr uint64_t kMaxTensors = uint64_t{1} << 18;

struct SplitName {
  std::filesystem::path folder;
  std::string stem;  // NAME
  int number = 0;    // 1-based
  int count = 0;
};

/// nullopt if the name is not of that form, or number or count are 0, or number exceeds count.
std::optional<SplitName> parse_split_name(const std::filesystem::path& path);

/// The path of part `number` (1-based) of the same model.
std::filesystem::path split_path(const SplitName& name, int number);

}  // namespace hearth::gguf
