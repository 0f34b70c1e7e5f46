// Converts a call's arguments from Python notation, f(city="Bern", days=2, exact=True), to JSON.
//
// Some models write calls this way (Llama 4, LFM2). Only literals are supported: strings, numbers, True,
// False and None (or JSON's words for them), lists, tuples and dicts with string keys. Used by the reader of
// such calls.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace hearth {

/// Finds the bracket that closes a call, byte by byte, skipping strings and nested brackets.
class PythonCallEnd {
 public:
  /// Takes the next byte after the opening bracket. Returns true if it is the closing one.
  bool push(char c);

 private:
  size_t depth_ = 0;
  char quote_ = 0;  // quote of the current string; 0: none
  bool escaped_ = false;
};

/// arguments: the text between the brackets. Returns the JSON text of an object, or nullopt if they do not
/// have the form key=literal, key=literal.
std::optional<std::string> python_arguments_to_json(std::string_view arguments);

}  // namespace hearth
