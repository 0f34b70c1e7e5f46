// See the header.
#include "server/api/responses/custom_input.h"

#include <charconv>
#include <utility>

#include "kernels/base/utf8.h"
#include "server/api/responses/response_tools.h"

namespace hearth {
namespace {

constexpr std::string_view kJsonWhite = " \t\r\n";
constexpr unsigned kReplacement = 0xFFFD;

/// Returns the character that a short escape stands for.
char unescaped_json(char c) {
  switch (c) {
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'r':
      return '\r';
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    default:
      return c;
  }
}

}  // namespace

std::string CustomInput::push(std::string_view arguments) {
  std::string out;
  if (state_ == State::kBefore) {
    waiting_ += arguments;
    if (!enter()) return out;
    arguments = {};
  }
  std::string text = std::exchange(waiting_, {});
  text += arguments;
  for (size_t at = 0; at < text.size() && state_ == State::kInside; ++at) {
    const char c = text[at];
    if (c != '\\') {
      add_lost_half(out);
      if (c == '"') state_ = State::kAfter;
      if (c != '"') out += c;
    } else {
      const size_t length = at + 1 < text.size() && text[at + 1] == 'u' ? 6 : 2;
      if (at + length > text.size()) {
        waiting_ = text.substr(at);
        break;
      }
      waiting_ = text.substr(at, length);
      read_escape(out);
      at += length - 1;
    }
  }
  return out;
}

/// Enters the text if the arguments so far show its beginning. Leaves the text behind it in waiting_.
bool CustomInput::enter() {
  size_t at = 0;
  for (const std::string& part :
       {std::string("{"), "\"" + std::string(kCustomInput) + "\"", std::string(":"), std::string("\"")}) {
    at = waiting_.find_first_not_of(kJsonWhite, at);
    if (at == std::string::npos || !std::string_view(waiting_).substr(at).starts_with(part)) return false;
    at += part.size();
  }
  waiting_.erase(0, at);
  state_ = State::kInside;
  return true;
}

void CustomInput::read_escape(std::string& out) {
  const std::string escape = std::exchange(waiting_, {});
  if (escape[1] != 'u') {
    add_lost_half(out);
    out += unescaped_json(escape[1]);
    return;
  }
  unsigned unit = kReplacement;
  std::from_chars(escape.data() + 2, escape.data() + 6, unit, 16);
  add_unit(unit, out);
}

/// Adds a code unit of UTF-16. Halves of surrogate pairs become one character, or U+FFFD without the other
/// half.
void CustomInput::add_unit(unsigned unit, std::string& out) {
  const bool is_low = unit >= 0xDC00 && unit < 0xE000;
  if (is_low && high_ != 0) {
    append_utf8(0x10000 + ((std::exchange(high_, 0) - 0xD800) << 10) + (unit - 0xDC00), out);
    return;
  }
  add_lost_half(out);
  if (unit >= 0xD800 && unit < 0xDC00) {
    high_ = unit;
  } else {
    append_utf8(is_low ? kReplacement : unit, out);
  }
}

/// Adds U+FFFD if the first half of a surrogate pair has no second one.
void CustomInput::add_lost_half(std::string& out) {
  if (std::exchange(high_, 0) != 0) append_utf8(kReplacement, out);
}

std::string CustomInput::finish() {
  return state_ == State::kBefore ? std::exchange(waiting_, {}) : std::string();
}

}  // namespace hearth
