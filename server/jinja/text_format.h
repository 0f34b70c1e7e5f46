// Values as text: str() and repr() as Python prints them, printf-style % and a plain str.format().
// Used by the evaluator's output and by built-ins.
#pragma once
#include <string>
#include <string_view>

#include "server/jinja/callable.h"
#include "server/jinja/heap.h"
#include "server/jinja/value.h"

namespace hearth::jinja {

// repr(float): the shortest digits that read back the same, always with a point or an exponent.
std::string real_text(double d);

// str(value): text as it is, nothing for undefined, containers as Python prints them.
std::string to_text(const Value& value, Budget& budget);
// repr(value): the same with text quoted.
std::string repr(const Value& value, Budget& budget);

// format % values: values is a tuple, a dict for %(name)s, or a single value. Conversions s r d i f g e x o c
// %, with flags, width and precision.
Value format_percent(const std::string& format, const Value& values, Heap& heap);

// format.format(*args, **kwargs): {}, {0} and {name}; no attributes, conversions or format specs.
Value format_braces(const std::string& format, const Args& args, Heap& heap);

}  // namespace hearth::jinja
