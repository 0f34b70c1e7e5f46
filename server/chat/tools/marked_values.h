// Converts a call's arguments from the notation of Gemma 4 and FunctionGemma to JSON:
// {city:<|"|>Bern<|"|>,days:2,tags:[<|"|>a<|"|>]}.
//
// Strings stand between two marks, without escapes. Names of members have neither marks nor quotes. Numbers,
// true, false, null, objects and lists are as in JSON. Members and strings that are written as in JSON are
// read too, because models mix the notations. Used by MarkedCallReader.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace hearth {

/// Finds the end of an object whose text is still being generated. Skips strings and nested brackets.
class MarkedObjectEnd {
 public:
  explicit MarkedObjectEnd(std::string_view mark) : mark_(mark) {}

  /// text: what has been generated after the object's opening bracket; each call passes the same text or a
  /// longer one. Returns the position behind the closing bracket; npos if it has not come yet.
  size_t find(std::string_view text);

 private:
  std::string mark_;
  size_t at_ = 0;  // everything before it has been examined
  size_t depth_ = 0;
  bool in_mark_ = false, in_quotes_ = false;
};

/// members: the text between the brackets of an object. Returns a JSON object as text, or nullopt if the text
/// is not in this notation, is nested deeper than 64 levels, or has two members of one name.
std::optional<std::string> marked_members_to_json(std::string_view members, std::string_view mark);

/// Returns the members of a JSON object in the notation; an empty text if `json` is not an object.
std::string json_to_marked_members(std::string_view json, std::string_view mark);

}  // namespace hearth
