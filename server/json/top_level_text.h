// Reads one text of a JSON object without building the object.
//
// Used by Routes to find the model that a request names, before a handler parses the body. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

namespace hearth {

/// Returns the object's first string with this key, at the top level. Returns "" if there is none, or if the
/// text before it is not JSON. Ends at the string, so a handler must still check the whole text.
std::string top_level_text(std::string_view json, std::string_view key);

}  // namespace hearth
