// Where stretches lie and how they are cut. See the header.
#include "profiler/predictors/text_sample.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "profiler/activity/text_input.h"

namespace hearth {
namespace {

/// Up to n bytes from `begin` on.
std::string read(TextInput& in, uint64_t begin, size_t n) {
  if (begin > 0) in.seek(begin);
  std::string text = in.read(n);
  // Text has no bytes of zero; what programs and archives are made of has them soon.
  const size_t zero = text.find('\0');
  if (zero != std::string::npos) {
    in.refuse("it is no text: byte " + std::to_string(begin + zero) + " of it is zero");
  }
  return text;
}

/// What lies between the first and the last line break, or space, or character where there is none.
std::string whole_lines(std::string text) {
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

}  // namespace

NamedText sample_text(const std::string& path, size_t max_bytes, std::string_view option) {
  TextInput in(path, "give " + std::string(option) + " a file of plain text");
  max_bytes = std::max(max_bytes, kStretchBytes);
  std::string text;
  if (in.size() <= max_bytes) {
    text = read(in, 0, max_bytes);
  } else {
    const uint64_t n = max_bytes / kStretchBytes;
    for (uint64_t i = 0; i < n; ++i) {
      // The middles of n equal parts; the products stay far below 2^64.
      const uint64_t begin = in.size() / n * i + (in.size() / n - kStretchBytes) / 2;
      text += whole_lines(read(in, begin, kStretchBytes));
    }
  }
  if (text.empty()) in.refuse("it is empty");
  return {path, std::move(text)};
}

}  // namespace hearth
