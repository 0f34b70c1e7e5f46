// Implements the UTF-8 decoder.
#include "kernels/base/utf8.h"

#include <cstdint>

namespace hearth {
namespace {

/// A first byte's meaning: the character's length in bytes (0 if the byte cannot begin a character), and the
/// range of the second byte.
struct Lead {
  size_t length;
  uint8_t second_low;
  uint8_t second_high;
};

Lead lead_of(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};  // a continuation byte, or C0 or C1, which only begin overlong forms
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};  // below: overlong
  if (byte == 0xED) return {3, 0x80, 0x9F};  // above: surrogates
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};  // below: overlong
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};  // above: past U+10FFFF
  return {0, 0, 0};
}

}  // namespace

Utf8Char utf8_front(std::string_view bytes) {
  const Lead lead = lead_of(static_cast<uint8_t>(bytes[0]));
  if (lead.length == 0) return {Utf8Status::kInvalid, 1};
  for (size_t i = 1; i < lead.length; ++i) {
    if (i == bytes.size()) return {Utf8Status::kIncomplete, i};
    const uint8_t byte = static_cast<uint8_t>(bytes[i]);
    const uint8_t low = i == 1 ? lead.second_low : 0x80;
    const uint8_t high = i == 1 ? lead.second_high : 0xBF;
    if (byte < low || byte > high) return {Utf8Status::kInvalid, i};
  }
  return {Utf8Status::kWhole, lead.length};
}

size_t character_length(std::string_view text) {
  const Utf8Char front = utf8_front(text);
  return front.status == Utf8Status::kWhole ? front.length : 1;
}

size_t utf8_valid_prefix(std::string_view bytes) {
  size_t at = 0;
  while (at < bytes.size()) {
    if (static_cast<uint8_t>(bytes[at]) < 0x80) {
      ++at;
      continue;
    }
    const Utf8Char front = utf8_front(bytes.substr(at));
    if (front.status != Utf8Status::kWhole) break;
    at += front.length;
  }
  return at;
}

std::u32string code_points(std::string_view text) {
  std::u32string out;
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<uint8_t>(text[i]);
    const size_t n = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    char32_t c = n == 1 ? lead : lead & (0x7F >> n);
    for (size_t k = 1; k < n; ++k) c = (c << 6) | (static_cast<uint8_t>(text[i + k]) & 0x3F);
    out += c;
    i += n;
  }
  return out;
}

void append_utf8(char32_t c, std::string& out) {
  const auto tail = [&](int shift) { return static_cast<char>(0x80 | ((c >> shift) & 0x3F)); };
  if (c < 0x80)
    out += static_cast<char>(c);
  else if (c < 0x800)
    out += {static_cast<char>(0xC0 | (c >> 6)), tail(0)};
  else if (c < 0x10000)
    out += {static_cast<char>(0xE0 | (c >> 12)), tail(6), tail(0)};
  else
    out += {static_cast<char>(0xF0 | (c >> 18)), tail(12), tail(6), tail(0)};
}

}  // namespace hearth
