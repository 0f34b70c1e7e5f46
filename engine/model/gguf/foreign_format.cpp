// A table of beginnings of files that people give to programs like this one.
#include "engine/model/gguf/foreign_format.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "engine/model/gguf/fault.h"

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

// Enough to tell text from weights; a model's first bytes are not read further than this.
constexpr size_t kSample = 512;

// A safetensors file begins with the length of a JSON object that follows.
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

}  // namespace

std::string explain_foreign(std::span<const std::byte> bytes) {
  const std::string_view head(reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), kSample));
  for (const Beginning& beginning : kBeginnings) {
    if (head.starts_with(beginning.bytes)) return sentence(beginning.what, beginning.remedy);
  }
  if (is_safetensors(head, bytes.size())) return sentence("a safetensors file", kConvert);
  if (is_html(head))
    return sentence("a web page, perhaps a failed download's error page", "download the model again");
  if (is_tar(head)) return sentence("a tar archive", kUnpack);
  if (is_text(head)) return sentence("a text file", "give the path of a GGUF model");
  if (std::all_of(head.begin(), head.end(), [](char c) { return c == '\0'; })) {
    return sentence("a file of zeros, as an unfinished download is", "download the model again");
  }
  return "it begins with " + quoted(head.substr(0, 4)) +
         ", expected \"GGUF\"; it is no GGUF model or it is corrupt: "
         "give the path of a GGUF model or download it again";
}

}  // namespace hearth::gguf
