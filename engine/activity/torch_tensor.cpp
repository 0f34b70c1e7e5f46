// From the archive's entries and the pickle's description to numbers.
#include "engine/activity/torch_tensor.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "engine/activity/tensor_pickle.h"
#include "engine/activity/zip_entries.h"
#include "engine/model/gguf/fault.h"
#include "kernels/quant/half.h"

namespace hearth::activity {
namespace {

using gguf::fail;
using gguf::with_commas;

constexpr const char* kSaveAgain = "; save the tensor again with torch.save";

// Some twenty times the widest FFN there is. Bounds the result where a view repeats one element (stride 0).
constexpr int64_t kMaxElements = int64_t{1} << 20;

template <typename T>
double plain(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return static_cast<double>(value);
}

template <float (*widen)(uint16_t)>
double widened(const std::byte* bytes) {
  uint16_t bits = 0;
  std::memcpy(&bits, bytes, sizeof bits);
  return static_cast<double>(widen(bits));
}

struct ElementType {
  std::string_view storage;  // the class's name in module torch
  size_t bytes;
  double (*read)(const std::byte* bytes);
};

constexpr std::array<ElementType, 6> kElementTypes = {{
    {"IntStorage", 4, plain<int32_t>},
    {"LongStorage", 8, plain<int64_t>},
    {"HalfStorage", 2, widened<float_from_half>},
    {"BFloat16Storage", 2, widened<float_from_bfloat16>},
    {"FloatStorage", 4, plain<float>},
    {"DoubleStorage", 8, plain<double>},
}};

void require_zip(std::span<const std::byte> bytes, const std::string& file) {
  const std::string_view head(reinterpret_cast<const char*>(bytes.data()), std::min<size_t>(bytes.size(), 4));
  if (head.starts_with("PK\x03\x04")) return;
  if (head.starts_with("\x80\x02")) {
    fail(file, "it is a pickle, as PyTorch before 1.6 writes tensors, expected a zip archive" +
                   std::string(kSaveAgain) + " of a newer PyTorch");
  }
  fail(file, "it begins with " + gguf::quoted(head) + ", expected a zip archive as torch.save writes it" +
                 kSaveAgain);
}

const ZipEntry* find_entry(std::span<const ZipEntry> entries, std::string_view name) {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [name](const ZipEntry& entry) { return entry.name == name; });
  return found == entries.end() ? nullptr : &*found;
}

const ElementType& element_type(std::string_view storage, const std::string& file) {
  for (const ElementType& type : kElementTypes) {
    if (type.storage == storage) return type;
  }
  fail(file,
       "its elements are a " + gguf::quoted(storage) +
           ", expected int32, int64, float16, bfloat16, float32 or float64; convert the tensor and save it "
           "again with torch.save");
}

// Files from big-endian machines say so; those of PyTorch before 2.1 say nothing and are little-endian.
void require_little_endian(std::span<const ZipEntry> entries, const std::string& folder,
                           const std::string& file) {
  const ZipEntry* order = find_entry(entries, folder + "byteorder");
  if (order == nullptr) return;
  const std::string_view text(reinterpret_cast<const char*>(order->data.data()), order->data.size());
  if (text != "little") {
    fail(file, "its byte order is " + gguf::quoted(text) + ", expected \"little\"" + kSaveAgain +
                   " on a little-endian machine");
  }
}

}  // namespace

std::vector<double> read_torch_vector(std::span<const std::byte> bytes, const std::string& file) {
  constexpr std::string_view kPickle = "data.pkl";
  require_zip(bytes, file);
  const std::vector<ZipEntry> entries = read_zip_entries(bytes, file);
  const auto pickle = std::find_if(entries.begin(), entries.end(),
                                   [&](const ZipEntry& entry) { return entry.name.ends_with("/data.pkl"); });
  if (pickle == entries.end()) {
    fail(file, "it is a zip archive without data.pkl, expected a tensor" + std::string(kSaveAgain));
  }
  const std::string folder(pickle->name.substr(0, pickle->name.size() - kPickle.size()));
  require_little_endian(entries, folder, file);

  const PickledTensor tensor = read_tensor_pickle(pickle->data, file);
  const ElementType& type = element_type(tensor.storage_type, file);
  if (tensor.size > kMaxElements) {
    fail(file, "it holds " + with_commas(static_cast<uint64_t>(tensor.size)) +
                   " elements, expected at most " + with_commas(kMaxElements) +
                   ": it is no layer's activation counts");
  }
  const std::string storage_name = folder + "data/" + std::string(tensor.storage_key);
  const ZipEntry* storage = find_entry(entries, storage_name);
  if (storage == nullptr || storage->data.size() % type.bytes != 0 ||
      storage->data.size() / type.bytes != static_cast<uint64_t>(tensor.storage_elements)) {
    fail(file,
         "its entry " + gguf::quoted(storage_name) +
             (storage == nullptr ? " is missing" : " has " + with_commas(storage->data.size()) + " bytes") +
             ", expected " + with_commas(static_cast<uint64_t>(tensor.storage_elements)) + " elements of " +
             std::to_string(type.bytes) + " bytes: it is damaged; download it again");
  }

  std::vector<double> elements(static_cast<size_t>(tensor.size));
  for (size_t i = 0; i < elements.size(); ++i) {
    const size_t at = static_cast<size_t>(tensor.offset) + i * static_cast<size_t>(tensor.stride);
    elements[i] = type.read(storage->data.data() + at * type.bytes);
  }
  return elements;
}

}  // namespace hearth::activity
