// Reads a GPU index. Checks its header, its keys and two tensors per layer, and that the tensors agree.
#include "engine/activity/gpu_index.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/model/gguf/cursor.h"
#include "engine/model/gguf/gguf_value.h"
#include "engine/model/gguf/mapped_file.h"
#include "kernels/base/file_error.h"

namespace hearth::activity {
namespace {

using file_error::with_commas;

constexpr std::string_view kMagic = "PWRI";
constexpr uint32_t kVersion = 3;
constexpr uint32_t kOldInt32 = 18;   // GGML_TYPE_I32 in PowerInfer's ggml; today's ggml uses this number for
                                     // IQ3_XXS
constexpr uint32_t kInt32 = 26;      // GGML_TYPE_I32 in today's ggml and in today's gguf package
constexpr uint64_t kAlignment = 32;  // GGUF's default; PowerInfer never changes it
constexpr uint64_t kMaxKeys = 64;    // PowerInfer writes three keys
constexpr const char* kAgain = "; remove the file or let PowerInfer make it again";
constexpr const char* kArchitectureKey = "general.architecture";
constexpr const char* kBlockCountKey = "generic.gpu_index.block_count";

struct Counts {
  uint64_t tensors;
  uint64_t keys;
};

Counts read_header(gguf::Cursor& cursor, std::span<const std::byte> bytes, const std::string& file) {
  const std::string_view head(reinterpret_cast<const char*>(bytes.data()),
                              std::min(bytes.size(), kMagic.size()));
  if (head != kMagic) {
    file_error::fail(file, "it begins with " + file_error::quoted(head) +
                               ", expected PowerInfer's \"PWRI\": it is not a GPU index" + kAgain);
  }
  cursor.take(kMagic.size());
  if (const uint32_t version = cursor.read<uint32_t>(); version != kVersion) {
    cursor.fail("says version " + with_commas(version) + ", expected 3" + kAgain);
  }
  Counts counts{};
  counts.tensors = cursor.read<uint64_t>();
  counts.keys = cursor.read<uint64_t>();
  if (counts.keys > kMaxKeys) {
    cursor.fail("claims " + with_commas(counts.keys) + " keys, expected at most " + with_commas(kMaxKeys) +
                kAgain);
  }
  return counts;
}

// Checks the file's architecture and returns its number of layers.
int64_t read_keys(gguf::Cursor& cursor, uint64_t n_keys) {
  std::string_view architecture;
  std::optional<int64_t> n_layers;
  for (uint64_t i = 0; i < n_keys; ++i) {
    cursor.enter("key", i + 1);
    const std::string_view key = cursor.read_string();
    cursor.name_it(key);
    const gguf::Value value = gguf::read_value(cursor);
    if (key == kArchitectureKey && value.type == gguf::ValueType::kString) {
      architecture = {reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size()};
    }
    if (key == kBlockCountKey) n_layers = gguf::integer_at(value.type, value.bytes.data());
    if (key == "general.alignment")
      cursor.fail("is set, expected it to be absent, as in PowerInfer's files" + std::string(kAgain));
  }
  cursor.enter("header");
  if (architecture != "generic.gpu_index") {
    cursor.fail("says architecture " + file_error::quoted(architecture) + ", expected \"generic.gpu_index\"" +
                kAgain);
  }
  if (!n_layers) cursor.fail("has no integer key " + file_error::quoted(kBlockCountKey) + kAgain);
  return *n_layers;
}

struct Entry {
  uint64_t size = 0;    // elements
  uint64_t offset = 0;  // byte offset in the data section
};

// Reads the entry at the cursor; its name must be blk.<layer>.<suffix>.
Entry read_entry(gguf::Cursor& cursor, int layer, const char* suffix) {
  cursor.enter("tensor", 2 * static_cast<uint64_t>(layer) + 1);
  const std::string_view name = cursor.read_string();
  cursor.name_it(name);
  const std::string expected = "blk." + std::to_string(layer) + '.' + suffix;
  if (name != expected) {
    cursor.fail("is at the place of " + file_error::quoted(expected) +
                ": names and order contradict each other" + kAgain);
  }
  if (const uint32_t n_dims = cursor.read<uint32_t>(); n_dims != 1) {
    cursor.fail("has " + with_commas(n_dims) + " dimensions, expected one" + kAgain);
  }
  Entry entry;
  entry.size = cursor.read<uint64_t>();
  if (const uint32_t type = cursor.read<uint32_t>(); type != kOldInt32 && type != kInt32) {
    cursor.fail("has type " + with_commas(type) + ", expected 18 or 26 (I32)" + kAgain);
  }
  entry.offset = cursor.read<uint64_t>();
  return entry;
}

// Reads a tensor's values; `data` is at the start of the data section. REQUIRES: the caller has checked that
// entry.size is at most the number of neurons in a layer.
std::vector<int32_t> read_values(gguf::Cursor data, const Entry& entry, int layer, const char* suffix) {
  const std::string name = "blk." + std::to_string(layer) + '.' + suffix;
  data.enter("tensor");
  data.name_it(name);
  data.take(entry.offset);
  const std::span<const std::byte> bytes = data.take(entry.size * sizeof(int32_t));
  std::vector<int32_t> values(static_cast<size_t>(entry.size));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::vector<double> layer_marks(const std::vector<int32_t>& mask, const std::vector<int32_t>& bucket,
                                int layer, const std::string& file) {
  const std::string blk = "blk." + std::to_string(layer);
  std::vector<double> marks;
  std::vector<int32_t> marked;
  for (const int32_t mark : mask) {
    if (mark != 0 && mark != 1) {
      file_error::fail(file,
                       blk + ".gpu_idx holds " + std::to_string(mark) + ", expected only 0 and 1" + kAgain);
    }
    if (mark == 1) marked.push_back(static_cast<int32_t>(marks.size()));
    marks.push_back(mark);
  }
  if (bucket != marked) {
    file_error::fail(file, blk + ".gpu_bucket is not the ascending list of neurons marked in " + blk +
                               ".gpu_idx" + kAgain);
  }
  return marks;
}

}  // namespace

ActivityProfile parse_gpu_index(std::span<const std::byte> bytes, const std::string& file, int n_layers,
                                int d_ff) {
  gguf::Cursor cursor(bytes, file);
  const Counts counts = read_header(cursor, bytes, file);
  const int64_t layers_there = read_keys(cursor, counts.keys);
  if (layers_there != n_layers) {
    file_error::fail(file, "it is of another model: it has " + std::to_string(layers_there) +
                               " layers, this model " + std::to_string(n_layers));
  }
  if (counts.tensors != 2 * static_cast<uint64_t>(n_layers)) {
    cursor.fail("claims " + with_commas(counts.tensors) + " tensors, expected two for each of " +
                std::to_string(n_layers) + " layers" + kAgain);
  }
  const uint64_t width = static_cast<uint64_t>(d_ff);
  std::vector<std::array<Entry, 2>> entries;
  for (int layer = 0; layer < n_layers; ++layer) {
    const Entry mask = read_entry(cursor, layer, "gpu_idx");
    if (mask.size != width) {
      file_error::fail(file, "it is of another model: its layer " + std::to_string(layer) + " has " +
                                 with_commas(mask.size) + " neurons, this model's " + with_commas(width));
    }
    const Entry bucket = read_entry(cursor, layer, "gpu_bucket");
    if (bucket.size > width) {
      cursor.fail("has " + with_commas(bucket.size) + " elements, expected at most " + with_commas(width) +
                  kAgain);
    }
    entries.push_back({mask, bucket});
  }
  cursor.enter("padding");
  cursor.take((kAlignment - cursor.at() % kAlignment) % kAlignment);
  ActivityProfile profile;
  for (int layer = 0; layer < n_layers; ++layer) {
    const std::array<Entry, 2>& of_layer = entries[static_cast<size_t>(layer)];
    profile.counts.push_back(layer_marks(read_values(cursor, of_layer[0], layer, "gpu_idx"),
                                         read_values(cursor, of_layer[1], layer, "gpu_bucket"), layer, file));
  }
  return profile;
}

ActivityProfile read_gpu_index(const std::filesystem::path& path, int n_layers, int d_ff) {
  const gguf::MappedFile mapped = gguf::MappedFile::open(path, "PowerInfer's GPU index");
  return parse_gpu_index(mapped.bytes(), file_error::file_label(path.string()), n_layers, d_ff);
}

}  // namespace hearth::activity
