// The byte alphabet of GPT-2: see the header. Each of its characters takes one or two bytes in UTF-8.
#include "engine/text/byte_alphabet.h"

#include <array>
#include <cstdint>

#include "kernels/base/utf8.h"

namespace hearth {
namespace {

constexpr uint32_t kFirstMoved = 0x100;
constexpr int kMoved = 68;  // bytes that do not represent themselves

constexpr bool is_printable(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

struct Alphabet {
  std::array<uint16_t, 256> code_point{};          // indexed by byte
  std::array<int16_t, kFirstMoved + kMoved> byte;  // [code point] the byte it stands for; -1: none
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet{};
  for (int16_t& byte : alphabet.byte) byte = -1;
  uint32_t next = kFirstMoved;
  for (int byte = 0; byte < 256; ++byte) {
    const uint32_t code = is_printable(byte) ? static_cast<uint32_t>(byte) : next++;
    alphabet.code_point[byte] = static_cast<uint16_t>(code);
    alphabet.byte[code] = static_cast<int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

/// Returns the byte that the character stands for, or -1 if the alphabet lacks the character.
int spelled_byte(std::string_view character) {
  uint32_t code = static_cast<uint8_t>(character[0]);
  if (character.size() == 2) code = (code & 0x1F) << 6 | (static_cast<uint8_t>(character[1]) & 0x3F);
  if (character.size() > 2 || code >= kAlphabet.byte.size()) return -1;
  return kAlphabet.byte[code];
}

}  // namespace

std::string spelled_bytes(std::string_view text) {
  std::string bytes;
  while (!text.empty()) {
    const Utf8Char front = utf8_front(text);
    const std::string_view character = text.substr(0, front.length);
    const int byte = front.status == Utf8Status::kWhole ? spelled_byte(character) : -1;
    if (byte >= 0) {
      bytes.push_back(static_cast<char>(byte));
    } else {
      bytes.append(character);
    }
    text.remove_prefix(front.length);
  }
  return bytes;
}

std::string spell_bytes(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    const uint16_t code = kAlphabet.code_point[static_cast<uint8_t>(c)];
    append_utf8(code, text);
  }
  return text;
}

}  // namespace hearth
