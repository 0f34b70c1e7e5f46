// Encodes and decodes base64.
#include "kernels/base/base64.h"

#include <algorithm>
#include <cstdint>

namespace hearth {
namespace {

constexpr std::string_view kBase64Digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string base64_of(std::span<const std::byte> bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t n = std::min<size_t>(3, bytes.size() - i);
    uint32_t bits = 0;
    for (size_t j = 0; j < 3; ++j) bits = bits << 8 | (j < n ? std::to_integer<uint32_t>(bytes[i + j]) : 0);
    for (size_t digit = 0; digit < 4; ++digit) {
      out += digit <= n ? kBase64Digits[bits >> (18 - 6 * digit) & 63] : '=';
    }
  }
  return out;
}

std::optional<std::string> decoded_base64(std::string_view text) {
  while (text.ends_with('=')) text.remove_suffix(1);
  if (text.size() % 4 == 1) return std::nullopt;
  std::string out;
  uint32_t bits = 0;
  int n_bits = 0;
  for (const char c : text) {
    const size_t value = kBase64Digits.find(c);
    if (value == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(value);
    n_bits += 6;
    if (n_bits < 8) continue;
    n_bits -= 8;
    out.push_back(static_cast<char>(bits >> n_bits & 255));
  }
  return out;
}

}  // namespace hearth
