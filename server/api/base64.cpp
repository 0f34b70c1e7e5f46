// See the header.
#include "server/api/base64.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace hearth {

std::string base64_of(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t n = std::min<size_t>(3, bytes.size() - i);
    uint32_t bits = 0;
    for (size_t j = 0; j < 3; ++j) bits = bits << 8 | (j < n ? std::to_integer<uint32_t>(bytes[i + j]) : 0);
    for (size_t digit = 0; digit < 4; ++digit) {
      out += digit <= n ? kDigits[bits >> (18 - 6 * digit) & 63] : '=';
    }
  }
  return out;
}

}  // namespace hearth
