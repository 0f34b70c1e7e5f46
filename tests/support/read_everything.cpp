// Walks a model file. Accessors for a type other than the key's throw ModelFileError, which is expected here.
#include "tests/support/read_everything.h"

#include <string>
#include <string_view>
#include <vector>

namespace hearth::test {
namespace {

template <typename Read>
uint64_t or_refusal(const Read& read) {
  try {
    return read();
  } catch (const ModelFileError& error) {
    return std::string_view(error.what()).size();
  }
}

uint64_t sum_of(std::string_view text) {
  uint64_t sum = text.size();
  for (const char c : text) sum = sum * 31 + static_cast<uint8_t>(c);
  return sum;
}

uint64_t read_key(const ModelFile& file, std::string_view key) {
  uint64_t sum = sum_of(file.describe_key(key)) + (file.has_key(key) ? 1 : 0);
  sum += or_refusal([&] { return static_cast<uint64_t>(file.get_int(key)); });
  sum += or_refusal([&] { return file.get_float(key) > 0 ? 1u : 0u; });
  sum += or_refusal([&] { return *file.find_bool(key) ? 1u : 0u; });
  sum += or_refusal([&] { return sum_of(file.get_string(key)); });
  sum += or_refusal([&] {
    uint64_t texts = 0;
    const std::vector<std::string_view> strings = file.find_strings(key).value();
    for (const std::string_view text : strings) texts += sum_of(text);
    return texts;
  });
  sum += or_refusal([&] {
    uint64_t numbers = 0;
    const std::vector<int64_t> ints = file.find_ints(key).value();
    for (const int64_t number : ints) numbers += static_cast<uint64_t>(number);
    return numbers;
  });
  sum += or_refusal([&] { return static_cast<uint64_t>(file.find_floats(key).value().size()); });
  return sum;
}

}  // namespace

uint64_t read_everything(const ModelFile& file) {
  uint64_t sum = file.total_bytes();
  for (const std::string_view key : file.keys()) sum += read_key(file, key);
  for (const TensorInfo& tensor : file.tensors()) {
    sum += file.find_tensor(tensor.name) == &tensor ? 1 : 0;
    for (size_t i = 0; i < tensor.bytes; ++i) sum += std::to_integer<uint64_t>(tensor.data[i]);
  }
  return sum;
}

}  // namespace hearth::test
