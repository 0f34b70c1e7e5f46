// Converts values to text: str(), repr() and json.dumps() as in Python, printf-style % formatting, and a
// simple str.format(). Used by the evaluator and the built-ins, on the thread that renders.
#pragma once
#include <string>
#include <string_view>

#include "server/jinja/builtins.h"
#include "server/jinja/value.h"

namespace hearth::jinja {

// Implements repr(str): adds quotes, single ones if possible, and escapes unprintable characters.
std::string quote(std::string_view text);

// Implements repr(float): the fewest digits from which the number can be restored exactly, always with a
// point or an exponent.
std::string real_text(double d);

// Implements str(value). Text stays unchanged, and an undefined value becomes empty text.
std::string to_text(const Value& value, Budget& budget);
// Implements repr(value): like to_text(), but text has quotes.
std::string repr(const Value& value, Budget& budget);

// Implements the % operator of strings. values: a tuple, a dict for %(name)s, or a single value. Supports the
// conversions s r d i f g e x o c % with flags, width and precision.
Value format_percent(const std::string& format, const Value& values, Heap& heap);

// Implements str.format(*args, **kwargs). Supports {}, {0} and {name}, but no attributes, conversions or
// format specs.
Value format_braces(const std::string& format, const Args& args, Heap& heap);

// The options of Python's json.dumps. Models were trained on exactly the bytes that Python writes. nlohmann's
// dump() writes different white space and cannot change the separators.
struct JsonStyle {
  bool ensure_ascii = false;
  int indent = -1;  // negative: the output has no line breaks
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};
// Implements json.dumps(value). Throws Failure for a value that JSON cannot represent.
std::string to_json_text(const Value& value, const JsonStyle& style, Budget& budget);

}  // namespace hearth::jinja
