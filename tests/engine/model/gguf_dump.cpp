// Prints what ModelFile reads from a GGUF file, one line per key or tensor, for the comparison with Python's
// gguf package.
//
// test_model_file_oracle.py uses it. Texts are printed in hexadecimal and numbers exactly, so that nothing is
// lost:
//   key NAME-HEX TYPE VALUE...      values: integers, hexadecimal floats, 0/1, hex texts; arrays: their
//   elements
//   tensor NAME-HEX DTYPE [SHAPE] BYTES FNV1A64-OF-DATA
// For a refused file it prints the message to standard error and exits with code 2.
#include <cinttypes>
#include <cstdio>
#include <string>
#include <string_view>

#include "engine/model/model_file.h"

namespace {

using hearth::ModelFile;
using hearth::TensorInfo;

std::string hex(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out = "x";  // makes an empty text a word too
  for (const char c : text) {
    out += kDigits[static_cast<uint8_t>(c) >> 4];
    out += kDigits[static_cast<uint8_t>(c) & 15];
  }
  return out;
}

void print_array(const ModelFile& file, std::string_view key, const std::string& type) {
  // Stored in variables first, because a range-for does not keep the optional alive.
  if (type.ends_with(" string")) {
    const std::vector<std::string_view> texts = file.find_strings(key).value();
    for (const std::string_view text : texts) std::printf(" %s", hex(text).c_str());
  } else if (type.find(" float") != std::string::npos) {
    const std::vector<float> numbers = file.find_floats(key).value();
    for (const float number : numbers) std::printf(" %a", static_cast<double>(number));
  } else {
    const std::vector<int64_t> numbers = file.find_ints(key).value();
    for (const int64_t number : numbers) std::printf(" %" PRId64, number);
  }
}

void print_key(const ModelFile& file, std::string_view key) {
  const std::string type = file.describe_key(key);
  const bool array = type.starts_with("array of ");
  const std::string word = array ? "array:" + type.substr(type.rfind(' ') + 1) : type;
  std::printf("key %s %s", hex(key).c_str(), word.c_str());
  if (array) {
    print_array(file, key, type);
  } else if (type == "string") {
    std::printf(" %s", hex(file.get_string(key)).c_str());
  } else if (type == "bool") {
    std::printf(" %d", *file.find_bool(key) ? 1 : 0);
  } else if (type.starts_with("float")) {
    std::printf(" %a", file.get_float(key));
  } else {
    std::printf(" %" PRId64, file.get_int(key));
  }
  std::printf("\n");
}

void print_tensor(const TensorInfo& tensor) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a, 64 bits
  for (size_t i = 0; i < tensor.bytes; ++i) {
    hash = (hash ^ std::to_integer<uint64_t>(tensor.data[i])) * 0x100000001b3u;
  }
  std::printf("tensor %s %s [", hex(tensor.name).c_str(),
              std::string(hearth::dtype_info(tensor.dtype).name).c_str());
  for (int i = 0; i < tensor.n_dims; ++i) {
    std::printf("%s%" PRId64, i > 0 ? "," : "", tensor.shape[static_cast<size_t>(i)]);
  }
  std::printf("] %zu %016" PRIx64 "\n", tensor.bytes, hash);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: gguf_dump FILE\n");
    return 1;
  }
  try {
    const ModelFile file = ModelFile::open(argv[1]);
    for (const std::string_view key : file.keys()) print_key(file, key);
    for (const TensorInfo& tensor : file.tensors()) print_tensor(tensor);
  } catch (const hearth::ModelFileError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
  return 0;
}
