// Escapes untrusted text for messages, and throws the error.
#include "kernels/base/file_error.h"

namespace hearth::file_error {
namespace {

// Length of the printable UTF-8 character at the front of `s`; 0 if there is none. Overlong forms,
// surrogates, control characters (C0, DEL, C1) and values above U+10FFFF are not printable (Unicode 15, table
// 3-7).
size_t printable_length(std::string_view s) {
  const uint8_t lead = static_cast<uint8_t>(s[0]);
  if (lead < 0x80) return lead >= 0x20 && lead != 0x7f ? 1 : 0;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  const size_t length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (s.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((static_cast<uint8_t>(s[i]) & 0xc0) != 0x80) return 0;
  }
  const uint8_t second = static_cast<uint8_t>(s[1]);
  if (lead == 0xc2 && second < 0xa0) return 0;  // C1 controls
  if (lead == 0xe0 && second < 0xa0) return 0;
  if (lead == 0xed && second > 0x9f) return 0;
  if (lead == 0xf0 && second < 0x90) return 0;
  if (lead == 0xf4 && second > 0x8f) return 0;
  return length;
}

std::string escaped(std::string_view bytes, size_t limit, bool escape_quotes) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out;
  size_t at = 0;
  while (at < bytes.size() && at < limit) {
    const size_t length = printable_length(bytes.substr(at));
    const bool quote = escape_quotes && (bytes[at] == '"' || bytes[at] == '\\');
    if (length == 0 || quote) {
      const uint8_t byte = static_cast<uint8_t>(bytes[at]);
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
      at += 1;
    } else {
      out += bytes.substr(at, length);
      at += length;
    }
  }
  if (at < bytes.size()) out += "...";
  return out;
}

}  // namespace

std::string quoted(std::string_view bytes, size_t limit) { return '"' + escaped(bytes, limit, true) + '"'; }

std::string file_label(std::string_view path) {
  constexpr size_t kLongestPath = 4096;  // PATH_MAX
  return escaped(path, kLongestPath, false);
}

std::string with_commas(uint64_t n) {
  std::string digits = std::to_string(n);
  for (size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

void fail(const std::string& file, const std::string& sentence) {
  throw ModelFileError(file + ": " + sentence);
}

}  // namespace hearth::file_error
