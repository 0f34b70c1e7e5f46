// Parses untrusted JSON with a limit on nesting, which is checked before the text is parsed.
//
// The JSON library copies, compares and prints values by recursion, so 100 KB of brackets would overflow the
// stack. Called wherever a checkpoint's JSON is read.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace hearth::convert {

/// Returns the parsed value, or a discarded value (is_discarded()) if the text is not JSON or nests deeper
/// than 64 levels. Throws only std::bad_alloc.
nlohmann::json parsed_json(std::string_view text);

}  // namespace hearth::convert
