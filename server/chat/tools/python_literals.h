// The arguments of a call in Python's notation, f(city="Bern", days=2, exact=True), as JSON.
//
// Some models write calls so (Llama 4, LFM2). Only literals are understood: strings, numbers, True, False
// and None (or JSON's words for them), lists, tuples and dicts with string keys. Used by the reader of
// such calls.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace hearth {

/// Finds the bracket that closes a call, byte by byte: outside of strings and of other brackets.
class PythonCallEnd {
 public:
  /// Takes the next byte after the opening bracket. True if it is the closing one.
  bool push(char c);

 private:
  size_t depth_ = 0;
  char quote_ = 0;  // of the string it is in
  bool escaped_ = false;
};

/// arguments: what stands between the brackets. The JSON text of an object, or nullopt if they are not of
/// the form key=literal, key=literal.
std::optional<std::string> python_arguments_to_json(std::string_view arguments);

}  // namespace hearth
