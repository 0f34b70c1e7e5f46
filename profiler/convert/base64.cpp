// See the header. The alphabet: RFC 4648.
#include "profiler/convert/base64.h"

#include <cstdint>

namespace hearth::convert {

std::optional<std::string> decoded_base64(std::string_view text) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  while (text.ends_with('=')) text.remove_suffix(1);
  if (text.size() % 4 == 1) return std::nullopt;
  std::string out;
  uint32_t bits = 0;
  int n_bits = 0;
  for (const char c : text) {
    const size_t value = kAlphabet.find(c);
    if (value == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(value);
    n_bits += 6;
    if (n_bits < 8) continue;
    n_bits -= 8;
    out.push_back(static_cast<char>(bits >> n_bits & 255));
  }
  return out;
}

}  // namespace hearth::convert
