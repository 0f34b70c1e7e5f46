// JSON of files that come from anywhere, read with a limit: what nests too deep is refused before a value is made of it.
//
// The JSON library copies, compares and prints values by recursion, so that a file of 100 KB of brackets would end the
// program by its stack. Called wherever a checkpoint's JSON is read.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace hearth::convert {

/// The value; a discarded one (is_discarded()) if the text is no JSON or has more than 64 levels. Never throws but for memory.
nlohmann::json parsed_json(std::string_view text);

}  // namespace hearth::convert
