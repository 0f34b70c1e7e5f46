// Converts values to text: str() and repr() as Python prints them, JSON as Python's json.dumps prints it,
// printf-style % formatting, and a plain str.format(). Used for the evaluator's output and by the built-ins,
// on the thread that renders.
#pragma once
#include <string>
#include <string_view>

#include "server/jinja/builtins.h"
#include "server/jinja/value.h"

namespace hearth::jinja {

// Implements repr(str): adds quotes, preferably single quotes, and escapes unprintable characters.
std::string quote(std::string_view text);

// Implements repr(float): the fewest digits that read back as the same number, always with a point or an
// exponent.
std::string real_text(double d);

// Implements str(value). Text is unchanged, an undefined value becomes empty text, and containers look as
// Python prints them.
std::string to_text(const Value& value, Budget& budget);
// Implements repr(value): like to_text(), but with text in quotes.
std::string repr(const Value& value, Budget& budget);

// Implements format % values. `values` is a tuple, a dict for %(name)s, or a single value. Supports the
// conversions s r d i f g e x o c % with flags, width and precision.
Value format_percent(const std::string& format, const Value& values, Heap& heap);

// Implements format.format(*args, **kwargs). Supports {}, {0} and {name}, but no attributes, conversions or
// format specs.
Value format_braces(const std::string& format, const Args& args, Heap& heap);

// The options of Python's json.dumps. nlohmann's dump() cannot be used instead: it cannot set separators and
// writes different white space, but models were trained on exactly the bytes that Python writes.
struct JsonStyle {
  bool ensure_ascii = false;
  int indent = -1;  // below zero: all on one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};
// Implements json.dumps(value). Throws Failure for a value that JSON cannot represent.
std::string to_json_text(const Value& value, const JsonStyle& style, Budget& budget);

}  // namespace hearth::jinja
