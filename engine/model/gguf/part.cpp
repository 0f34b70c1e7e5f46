// Header and keys of one GGUF file, then its tensors (tensor_table.cpp).
#include "engine/model/gguf/part.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "engine/model/gguf/cursor.h"
#include "engine/model/gguf/fault.h"
#include "engine/model/gguf/foreign_format.h"
#include "engine/model/gguf/tensor_table.h"

namespace hearth::gguf {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr std::string_view kPowerInferMagic = "PWRI";
constexpr uint64_t kMaxKeys = uint64_t{1} << 16;  // models have some fifty
constexpr uint64_t kDefaultAlignment = 32;        // the format's
// The format wants multiples of 8, which also suits loads of float; nothing aligns to more than a huge page.
constexpr uint64_t kMinAlignment = 8;
constexpr uint64_t kMaxAlignment = uint64_t{1} << 21;
// Smallest entries: length, type and one byte of value; length, dimension count, one dimension, type, offset.
constexpr uint64_t kMinKeyBytes = 8 + 4 + 1;
constexpr uint64_t kMinTensorBytes = 8 + 4 + 8 + 4 + 8;

struct Header {
  bool powerinfer;
  uint64_t tensors;
  uint64_t keys;
};

void check_version(const std::string& file, uint32_t version) {
  if (version == 2 || version == 3) return;
  if (version == 1) {
    fail(file, "it is GGUF version 1, expected 2 or 3; convert the model again or download a newer file");
  }
  if ((version & 0xffffu) == 0 && version != 0) {
    fail(file, "it is a big-endian GGUF file, expected a little-endian one; convert it to little-endian");
  }
  fail(file, "it says GGUF version " + with_commas(version) +
                 ", expected 2 or 3; it is corrupt or newer than this program: download it again or update");
}

Header read_header(Cursor& cursor, std::span<const std::byte> bytes, const std::string& file) {
  const std::string_view head(reinterpret_cast<const char*>(bytes.data()),
                              std::min(bytes.size(), kMagic.size()));
  if (head != kMagic && head != kPowerInferMagic) fail(file, explain_foreign(bytes));
  cursor.take(kMagic.size());
  check_version(file, cursor.read<uint32_t>());
  Header header{};
  header.powerinfer = head == kPowerInferMagic;
  header.tensors = cursor.read<uint64_t>();
  header.keys = cursor.read<uint64_t>();
  const uint64_t room_keys = std::min(cursor.remaining() / kMinKeyBytes, kMaxKeys);
  const uint64_t room_tensors = std::min(cursor.remaining() / kMinTensorBytes, kMaxTensors);
  if (header.keys > room_keys) {
    cursor.fail("claims " + with_commas(header.keys) + " keys, expected at most " + with_commas(room_keys) +
                " in a file of this size: it is truncated or corrupt; download it again");
  }
  if (header.tensors > room_tensors) {
    cursor.fail("claims " + with_commas(header.tensors) + " tensors, expected at most " +
                with_commas(room_tensors) +
                " in a file of this size: it is truncated or corrupt; download it again");
  }
  return header;
}

std::vector<KeyValue> read_keys(Cursor& cursor, uint64_t count) {
  std::vector<KeyValue> keys;  // grows with what is read, not with what is claimed
  for (uint64_t i = 0; i < count; ++i) {
    cursor.enter("key", i + 1);
    KeyValue entry;
    entry.key = cursor.read_string();
    if (entry.key.empty()) cursor.fail("has an empty name: the file is corrupt; download it again");
    cursor.name_it(entry.key);
    entry.value = read_value(cursor);
    keys.push_back(entry);
  }
  return keys;
}

// Sorted positions of `n` names; `name_of(i)` gives the i-th. Equal names keep file order.
template <typename NameOf>
NameOrder order_names(size_t n, const NameOf& name_of) {
  NameOrder order(n);
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return name_of(a) < name_of(b); });
  return order;
}

template <typename NameOf>
void require_unique(const NameOrder& order, const NameOf& name_of, const char* kind,
                    const std::string& file) {
  for (size_t i = 1; i < order.size(); ++i) {
    if (name_of(order[i - 1]) != name_of(order[i])) continue;
    fail(file, std::string(kind) + ' ' + quoted(name_of(order[i])) +
                   " occurs twice, expected once: the file is corrupt; download it again");
  }
}

uint64_t read_alignment(const Part& part, const std::string& file) {
  const KeyValue* entry = part.find_key("general.alignment");
  if (entry == nullptr) return kDefaultAlignment;
  const Value& value = entry->value;
  const int64_t alignment =
      is_integer(value.type) ? integer_at(value.type, value.bytes.data()).value_or(-1) : -1;
  const bool in_range =
      alignment >= static_cast<int64_t>(kMinAlignment) && alignment <= static_cast<int64_t>(kMaxAlignment);
  if (!in_range || !std::has_single_bit(static_cast<uint64_t>(alignment))) {
    fail(file, "key \"general.alignment\" holds " +
                   (is_integer(value.type) && alignment >= 0 ? std::to_string(alignment)
                                                             : "a value of type " + describe(value)) +
                   ", expected a power of two from 8 to 2,097,152: the file is corrupt; download it again");
  }
  return static_cast<uint64_t>(alignment);
}

/// PowerInfer writes one beside a model. Its tensors have types that would be taken for others.
void refuse_gpu_index(const Part& part, const std::string& file) {
  const KeyValue* entry = part.find_key("general.architecture");
  if (entry == nullptr || entry->value.type != ValueType::kString) return;
  const std::span<const std::byte> bytes = entry->value.bytes;
  if (std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()) != "generic.gpu_index")
    return;
  fail(file,
       "it is PowerInfer's index of a model's neurons (.generated.gpuidx), expected the model; give the "
       "model's "
       "own file, and Hearth finds the index beside it");
}

}  // namespace

const KeyValue* Part::find_key(std::string_view key) const {
  const auto found =
      std::lower_bound(key_order.begin(), key_order.end(), key,
                       [this](uint32_t i, std::string_view name) { return keys[i].key < name; });
  if (found == key_order.end() || keys[*found].key != key) return nullptr;
  return &keys[*found];
}

Part parse_part(std::span<const std::byte> bytes, const std::string& file) {
  Cursor cursor(bytes, file);
  const Header header = read_header(cursor, bytes, file);
  Part part;
  part.powerinfer = header.powerinfer;
  part.keys = read_keys(cursor, header.keys);
  const auto key_name = [&part](size_t i) { return part.keys[i].key; };
  part.key_order = order_names(part.keys.size(), key_name);
  require_unique(part.key_order, key_name, "key", file);
  refuse_gpu_index(part, file);
  part.tensors = read_tensors(cursor, bytes, file, header.tensors, read_alignment(part, file));
  return part;
}

NameOrder order_tensors(std::span<const TensorInfo> tensors, const std::string& file) {
  const auto name = [tensors](size_t i) { return tensors[i].name; };
  NameOrder order = order_names(tensors.size(), name);
  require_unique(order, name, "tensor", file);
  return order;
}

const TensorInfo* find_tensor(std::span<const TensorInfo> tensors, const NameOrder& order,
                              std::string_view name) {
  const auto found =
      std::lower_bound(order.begin(), order.end(), name,
                       [tensors](uint32_t i, std::string_view n) { return tensors[i].name < n; });
  if (found == order.end() || tensors[*found].name != name) return nullptr;
  return &tensors[*found];
}

}  // namespace hearth::gguf
