// Where stretches lie and how they are cut. See the header.
#include "profiler/predictors/text_sample.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <system_error>

namespace hearth {
namespace {

namespace fs = std::filesystem;

class Sampler {
 public:
  Sampler(const std::string& path, std::string_view option) : path_(path), option_(option) {
    std::error_code error;
    if (fs::is_directory(path, error)) fail("is a folder");
    in_.open(path, std::ios::binary);
    if (!in_) fail("cannot be read (" + std::string(std::strerror(errno)) + ")");
  }

  std::string sample(size_t max_bytes) {
    std::error_code error;
    const fs::path path = path_;
    const uint64_t size = fs::is_regular_file(path, error) ? fs::file_size(path, error) : 0;
    max_bytes = std::max(max_bytes, kStretchBytes);
    std::string text;
    if (size <= max_bytes) {
      text = read(0, max_bytes);
    } else {
      const uint64_t n = max_bytes / kStretchBytes;
      for (uint64_t i = 0; i < n; ++i) {
        // The middles of n equal parts; the products stay far below 2^64.
        const uint64_t begin = size / n * i + (size / n - kStretchBytes) / 2;
        text += whole_lines(read(begin, kStretchBytes));
      }
    }
    if (text.empty()) fail("is empty");
    return text;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error(path_ + ": " + what + "; give " + option_ + " a file of plain text.");
  }

  /// Up to n bytes from `begin` on.
  std::string read(uint64_t begin, size_t n) {
    if (begin > 0) in_.seekg(static_cast<std::streamoff>(begin));
    std::string text;
    while (text.size() < n && in_) {
      const size_t had = text.size();
      text.resize(std::min(n, had + kStretchBytes));
      in_.read(text.data() + had, static_cast<std::streamsize>(text.size() - had));
      text.resize(had + static_cast<size_t>(in_.gcount()));
    }
    if (in_.bad()) fail("could not be read to its end (" + std::string(std::strerror(errno)) + ")");
    // Text has no bytes of zero; what programs and archives are made of has them soon.
    const size_t zero = text.find('\0');
    if (zero != std::string::npos) {
      fail("is no text: byte " + std::to_string(begin + zero) + " of it is zero");
    }
    return text;
  }

  /// What lies between the first and the last line break, or space, or character where there is none.
  static std::string whole_lines(std::string text) {
    for (const char* breaks : {"\n", " \t"}) {
      const size_t first = text.find_first_of(breaks), last = text.find_last_of(breaks);
      if (last != std::string::npos && last - first >= text.size() / 2) {
        return text.substr(first + 1, last - first - 1) + '\n';
      }
    }
    const auto inside = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; };
    const size_t first = static_cast<size_t>(std::ranges::find_if_not(text, inside) - text.begin());
    size_t last = text.size();
    while (last > first && inside(text[last - 1])) --last;  // and the byte that began it
    return text.substr(first, std::max(last, first + 1) - first - 1) + '\n';
  }

  std::string path_, option_;
  std::ifstream in_;
};

}  // namespace

NamedText sample_text(const std::string& path, size_t max_bytes, std::string_view option) {
  return {path, Sampler(path, option).sample(max_bytes)};
}

}  // namespace hearth
