// Converts a call's arguments from Python notation, f(city="Bern", days=2, exact=True), to JSON.
//
// Some models write calls this way (Llama 4, LFM2). Only literals are supported: strings, numbers, True,
// False and None (or true, false and null), lists, tuples, and dicts with string keys. Used by
// PythonCallReader.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace hearth {

/// Finds the bracket that closes a call. Reads byte by byte, and skips strings and nested brackets.
class PythonCallEnd {
 public:
  /// Reads the next byte after the opening bracket. Returns true if it is the bracket that closes the call.
  bool push(char c);

 private:
  size_t depth_ = 0;
  char quote_ = 0;  // quote of the current string; 0 outside strings
  bool escaped_ = false;
};

/// arguments: the text between the brackets. Returns the JSON text of an object, or nullopt if the arguments
/// do not have the form key=literal, key=literal.
std::optional<std::string> python_arguments_to_json(std::string_view arguments);

}  // namespace hearth
