// Reading and writing of string literals.
#include "server/jinja/string_literal.h"

#include <array>
#include <charconv>
#include <cstdio>

#include "server/jinja/error.h"
#include "server/jinja/unicode.h"

namespace hearth::jinja {
namespace {

// Reads exactly n hexadecimal digits at `at` and moves past them.
char32_t hex_escape(std::string_view inner, std::size_t& at, std::size_t n) {
  const std::string_view digits = inner.substr(at, n);
  unsigned value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (digits.size() != n || error != std::errc() || end != digits.data() + n || value > 0x10FFFF) {
    throw Failure("a string holds a truncated or invalid \\x, \\u or \\U escape");
  }
  at += n;
  return value;
}

char32_t octal_escape(std::string_view inner, std::size_t& at) {
  char32_t value = 0;
  for (int i = 0; i < 3 && at < inner.size() && inner[at] >= '0' && inner[at] <= '7'; ++i) {
    value = value * 8 + static_cast<char32_t>(inner[at++] - '0');
  }
  return value;
}

void append_hex(std::string& out, const char* format, char32_t c) {
  std::array<char, 16> buffer{};
  std::snprintf(buffer.data(), buffer.size(), format, static_cast<unsigned>(c));
  out += buffer.data();
}

}  // namespace

std::string unescape(std::string_view inner) {
  static constexpr std::string_view kLetters = "\\'\"abfnrtv";
  static constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";
  std::string value;
  value.reserve(inner.size());
  for (std::size_t at = 0; at < inner.size();) {
    if (inner[at] != '\\' || at + 1 == inner.size()) {
      value += inner[at++];
      continue;
    }
    const char c = inner[at + 1];
    at += 2;
    if (const std::size_t i = kLetters.find(c); i != std::string_view::npos) {
      value += kMeanings[i];
    } else if (c == 'x') {
      append_code_point(value, hex_escape(inner, at, 2));
    } else if (c == 'u') {
      append_code_point(value, hex_escape(inner, at, 4));
    } else if (c == 'U') {
      append_code_point(value, hex_escape(inner, at, 8));
    } else if (c >= '0' && c <= '7') {
      append_code_point(value, octal_escape(inner, --at));
    } else if (c == 'N') {
      throw Failure("a string uses the escape \\N{...}, which is not supported; write \\uXXXX");
    } else if (c != '\n') {  // a backslash before a newline continues the line
      value += '\\';
      value += c;
    }
  }
  return value;
}

std::string quote(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const bool has_double = text.find('"') != std::string_view::npos;
  const char mark = has_single && !has_double ? '"' : '\'';
  std::string out(1, mark);
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    if (c == static_cast<char32_t>(mark) || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (is_printable(c)) {
      append_code_point(out, c);
    } else {
      append_hex(out, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
    }
  }
  return out += mark;
}

}  // namespace hearth::jinja
