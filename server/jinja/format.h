// Values as text: str() and repr() as Python prints them, JSON as Python's json.dumps prints it, printf-style
// % and a plain str.format(). Used by the evaluator's output and by the built-ins, on the rendering's thread.
#pragma once
#include <string>
#include <string_view>

#include "server/jinja/builtins.h"
#include "server/jinja/value.h"

namespace hearth::jinja {

// repr(str): quoted, single quotes preferred, unprintable characters escaped.
std::string quote(std::string_view text);

// repr(float): the shortest digits that read back the same, always with a point or an exponent.
std::string real_text(double d);

// str(value). Text is unchanged, an undefined value is empty, containers look as Python prints them.
std::string to_text(const Value& value, Budget& budget);
// repr(value): like to_text(), but text is quoted.
std::string repr(const Value& value, Budget& budget);

// format % values. values is a tuple, a dict for %(name)s, or a single value. Knows the conversions s r d i f
// g e x o c % with flags, width and precision.
Value format_percent(const std::string& format, const Value& values, Heap& heap);

// format.format(*args, **kwargs). Knows {}, {0} and {name}, but no attributes, conversions or format specs.
Value format_braces(const std::string& format, const Args& args, Heap& heap);

// The options of Python's json.dumps. nlohmann's dump() cannot set separators and writes other white space,
// but models were trained on exactly Python's bytes.
struct JsonStyle {
  bool ensure_ascii = false;
  int indent = -1;  // below zero: one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};
// json.dumps(value). Throws Failure for a value that JSON does not have.
std::string to_json_text(const Value& value, const JsonStyle& style, Budget& budget);

}  // namespace hearth::jinja
