// Parses untrusted JSON with a limit on nesting, which is checked before a value is made.
//
// The JSON library copies, compares and prints values by recursion, so 100 KB of brackets would overflow the
// stack. Called wherever a checkpoint's JSON is read.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace hearth::convert {

/// The value, or a discarded one (is_discarded()) if the text is not JSON or has more than 64 levels. Throws
/// only std::bad_alloc.
nlohmann::json parsed_json(std::string_view text);

}  // namespace hearth::convert
