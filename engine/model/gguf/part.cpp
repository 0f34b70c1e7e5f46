// Describes files that are not GGUF; parses the header and keys of one GGUF file (tensor_table.cpp parses its
// tensors); parses the file names of parts.
#include "engine/model/gguf/part.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <string_view>

#include "engine/model/gguf/cursor.h"
#include "engine/model/gguf/tensor_table.h"
#include "kernels/base/file_error.h"

namespace hearth::gguf {
namespace {

using std::string_view_literals::operator""sv;

struct Beginning {
  std::string_view bytes;
  std::string_view what;
  std::string_view remedy;
};

constexpr std::string_view kConvert = "convert the model to GGUF, or download its GGUF version";
constexpr std::string_view kUnpack = "unpack it first";
constexpr std::string_view kOldFormat = "convert it to GGUF, or download the model's GGUF version";

constexpr std::array<Beginning, 18> kBeginnings = {{
    {"FUGG"sv, "a big-endian GGUF file", "convert it to little-endian"},
    {"lmgg"sv, "an old llama.cpp model (format ggml, before GGUF)", kOldFormat},
    {"fmgg"sv, "an old llama.cpp model (format ggmf, before GGUF)", kOldFormat},
    {"tjgg"sv, "an old llama.cpp model (format ggjt, before GGUF)", kOldFormat},
    {"algg"sv, "an old llama.cpp adapter (format ggla), not a model", "give a model in GGUF"},
    {"PK\x03\x04"sv, "a zip archive, as PyTorch checkpoints are", kConvert},
    {"\x80\x02"sv, "a Python pickle, as old PyTorch checkpoints are", kConvert},
    {"\x80\x03"sv, "a Python pickle, as old PyTorch checkpoints are", kConvert},
    {"\x80\x04"sv, "a Python pickle, as old PyTorch checkpoints are", kConvert},
    {"\x93NUMPY"sv, "a NumPy array", kConvert},
    {"\x89HDF"sv, "an HDF5 file, as Keras models are", kConvert},
    {"version https://git-lfs"sv, "a Git LFS pointer, not the model itself",
     "fetch the model with \"git lfs pull\""},
    {"\x1f\x8b"sv, "a gzip archive", kUnpack},
    {"\x28\xb5\x2f\xfd"sv, "a zstd archive", kUnpack},
    {"\xfd\x37zXZ"sv, "an xz archive", kUnpack},
    {"BZh"sv, "a bzip2 archive", kUnpack},
    {"7z\xbc\xaf"sv, "a 7-Zip archive", kUnpack},
    {"\x7f\x45LF"sv, "a program (ELF)", "give the path of a GGUF model"},
}};

// Number of bytes read from the start of a file that is not GGUF: enough to tell text from weights.
constexpr size_t kSample = 512;

// A safetensors file begins with a length, followed by a JSON object of that length.
bool is_safetensors(std::string_view head, size_t file_size) {
  if (head.size() < 9 || head[8] != '{') return false;
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, head.data(), sizeof header_bytes);
  return header_bytes < file_size;
}

bool is_html(std::string_view head) {
  const size_t start = std::min(head.find_first_not_of(" \t\r\n"), head.size());
  std::string lower(head.substr(start, 16));
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower.starts_with("<!doctype") || lower.starts_with("<html") || lower.starts_with("<?xml");
}

bool is_text(std::string_view head) {
  return std::all_of(head.begin(), head.end(), [](char c) {
    const unsigned char byte = static_cast<unsigned char>(c);
    return byte >= 0x20 ? byte != 0x7f : byte == '\n' || byte == '\r' || byte == '\t';
  });
}

bool is_tar(std::string_view head) { return head.size() >= 262 && head.substr(257, 5) == "ustar"; }

std::string sentence(std::string_view what, std::string_view remedy) {
  return "it is " + std::string(what) + ", expected a GGUF model; " + std::string(remedy);
}

/// Returns a message about a file that is not GGUF, without the file's name at the start. It states what kind
/// of file this seems to be, that GGUF was expected, and what to do. bytes: the whole file. Never fails.
std::string explain_foreign(std::span<const std::byte> bytes) {
  const std::string_view head(reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), kSample));
  for (const Beginning& beginning : kBeginnings) {
    if (head.starts_with(beginning.bytes)) return sentence(beginning.what, beginning.remedy);
  }
  if (is_safetensors(head, bytes.size()))
    return sentence("a safetensors file",
                    "convert its folder with 'hearth-profiler convert FOLDER --out MODEL.gguf', or download "
                    "the model's GGUF version");
  if (is_html(head))
    return sentence("a web page, perhaps a failed download's error page", "download the model again");
  if (is_tar(head)) return sentence("a tar archive", kUnpack);
  if (is_text(head)) return sentence("a text file", "give the path of a GGUF model");
  if (std::all_of(head.begin(), head.end(), [](char c) { return c == '\0'; })) {
    return sentence("a file of zeros, probably an unfinished download", "download the model again");
  }
  return "it begins with " + file_error::quoted(head.substr(0, 4)) +
         ", expected \"GGUF\"; it is not a GGUF model or it is corrupt: "
         "give the path of a GGUF model or download it again";
}

}  // namespace

namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr std::string_view kPowerInferMagic = "PWRI";
constexpr uint64_t kMaxKeys = uint64_t{1} << 16;  // models have about fifty keys
constexpr uint64_t kDefaultAlignment = 32;        // as the format specifies
// Limits of the alignment. The format requires multiples of 8, which also suit loads of floats. No use of a
// file needs a larger alignment than the size of a huge page.
constexpr uint64_t kMinAlignment = 8;
constexpr uint64_t kMaxAlignment = uint64_t{1} << 21;
// Size in bytes of the smallest possible key and of the smallest possible tensor entry. A key has a length, a
// type and one byte of value. A tensor has a length, a dimension count, one dimension, a type and an offset.
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
    file_error::fail(
        file, "it is GGUF version 1, expected 2 or 3; convert the model again or download a newer file");
  }
  if ((version & 0xffffu) == 0 && version != 0) {
    file_error::fail(
        file, "it is a big-endian GGUF file, expected a little-endian one; convert it to little-endian");
  }
  file_error::fail(
      file, "it says GGUF version " + file_error::with_commas(version) +
                ", expected 2 or 3; it is corrupt or newer than this program: download it again or update");
}

Header read_header(Cursor& cursor, std::span<const std::byte> bytes, const std::string& file) {
  const std::string_view head(reinterpret_cast<const char*>(bytes.data()),
                              std::min(bytes.size(), kMagic.size()));
  if (head != kMagic && head != kPowerInferMagic) file_error::fail(file, explain_foreign(bytes));
  cursor.take(kMagic.size());
  check_version(file, cursor.read<uint32_t>());
  Header header{};
  header.powerinfer = head == kPowerInferMagic;
  header.tensors = cursor.read<uint64_t>();
  header.keys = cursor.read<uint64_t>();
  const uint64_t room_keys = std::min(cursor.remaining() / kMinKeyBytes, kMaxKeys);
  const uint64_t room_tensors = std::min(cursor.remaining() / kMinTensorBytes, kMaxTensors);
  if (header.keys > room_keys) {
    cursor.fail("claims " + file_error::with_commas(header.keys) + " keys, expected at most " +
                file_error::with_commas(room_keys) +
                " in a file of this size: it is truncated or corrupt; download it again");
  }
  if (header.tensors > room_tensors) {
    cursor.fail("claims " + file_error::with_commas(header.tensors) + " tensors, expected at most " +
                file_error::with_commas(room_tensors) +
                " in a file of this size: it is truncated or corrupt; download it again");
  }
  return header;
}

std::vector<KeyValue> read_keys(Cursor& cursor, uint64_t count) {
  std::vector<KeyValue> keys;  // grows only as keys are read, because `count` is not trusted
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

// Returns the positions of `n` names, sorted by name. name_of(i) returns the name at position i. Equal names
// keep their order.
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
    file_error::fail(file, std::string(kind) + ' ' + file_error::quoted(name_of(order[i])) +
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
    file_error::fail(
        file, "key \"general.alignment\" holds " +
                  (is_integer(value.type) && alignment >= 0 ? std::to_string(alignment)
                                                            : "a value of type " + describe(value)) +
                  ", expected a power of two from 8 to 2,097,152: the file is corrupt; download it again");
  }
  return static_cast<uint64_t>(alignment);
}

/// Refuses a GPU index, which PowerInfer writes beside a model. Its tensor types would be misread.
void refuse_gpu_index(const Part& part, const std::string& file) {
  const KeyValue* entry = part.find_key("general.architecture");
  if (entry == nullptr || entry->value.type != ValueType::kString) return;
  const std::span<const std::byte> bytes = entry->value.bytes;
  if (std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()) != "generic.gpu_index")
    return;
  file_error::fail(
      file,
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

namespace {

constexpr std::string_view kSuffix = ".gguf";
constexpr std::string_view kOf = "-of-";
constexpr size_t kDigits = 5;

// Parses five digits at `at`, or returns nullopt.
std::optional<int> digits_at(std::string_view text, size_t at) {
  int value = 0;
  const char* begin = text.data() + at;
  const std::from_chars_result result = std::from_chars(begin, begin + kDigits, value);
  if (result.ec != std::errc{} || result.ptr != begin + kDigits || *begin == '-') return std::nullopt;
  return value;
}

}  // namespace

std::optional<SplitName> parse_split_name(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  constexpr size_t kTail = 1 + kDigits + kOf.size() + kDigits + kSuffix.size();  // "-00001-of-00003.gguf"
  if (name.size() < kTail) return std::nullopt;
  const size_t dash = name.size() - kTail;
  const std::string_view view = name;
  if (view[dash] != '-' || view.substr(dash + 1 + kDigits, kOf.size()) != kOf || !view.ends_with(kSuffix)) {
    return std::nullopt;
  }
  const std::optional<int> number = digits_at(view, dash + 1);
  const std::optional<int> count = digits_at(view, dash + 1 + kDigits + kOf.size());
  if (!number || !count || *number < 1 || *number > *count) return std::nullopt;
  return SplitName{path.parent_path(), name.substr(0, dash), *number, *count};
}

std::filesystem::path split_path(const SplitName& name, int number) {
  char tail[32];
  std::snprintf(tail, sizeof tail, "-%05d-of-%05d.gguf", number, name.count);
  return name.folder / (name.stem + tail);
}

}  // namespace hearth::gguf
