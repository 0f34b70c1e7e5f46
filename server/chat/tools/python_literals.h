// Converts a call's arguments from Python notation, f(city="Bern", days=2, exact=True), to JSON.
//
// Llama 4 and LFM2 write calls this way. Only literals are supported: strings, numbers, True, False and None
// (or true, false and null), lists, tuples, and dicts with string keys. Used by PythonCallReader.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace hearth {

/// Finds the closing bracket of a call byte by byte. Skips strings and nested brackets.
class PythonCallEnd {
 public:
  /// Reads the next byte after the opening bracket. Returns true if this byte is the closing bracket.
  bool push(char c);

 private:
  size_t depth_ = 0;
  char quote_ = 0;  // quote of the current string; 0 outside strings
  bool escaped_ = false;
};

/// arguments: the text between the brackets. Returns a JSON object as text, or nullopt if the arguments do
/// not have the form key=literal, key=literal.
std::optional<std::string> python_arguments_to_json(std::string_view arguments);

/// Returns the members of a JSON object as arguments in Python's notation; an empty text if `json` is not an
/// object. Strings are written as in JSON.
std::string json_to_python_arguments(std::string_view json);

}  // namespace hearth
