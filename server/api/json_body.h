// A request's body from bytes to JSON, with limits: what a client sends may be anything.
//
// Called by ApiService on the HTTP thread, first thing. Stricter than the JSON library alone: nesting, number
// of values and repeated keys are checked while parsing, so nothing large is built before it is refused.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>

namespace hearth {

/// Keeps the order of keys: templates print tools in the order the client wrote them.
using Json = nlohmann::ordered_json;

/// Deep enough for the JSON schemas of tools (a dozen levels in practice), shallow enough to recurse over.
inline constexpr int kMaxJsonDepth = 64;
/// Values in one body. A list of a thousand prompts of a thousand token ids fits; memory stays under some 100
/// MB.
inline constexpr size_t kMaxJsonValues = 2'000'000;

/// The body's JSON object. Throws RequestError (400): not JSON (invalid UTF-8, lone surrogates and NaN
/// included), not an object, nested deeper than kMaxJsonDepth, more than kMaxJsonValues values, or a key
/// twice in one object.
Json parse_json_body(std::string_view body);

}  // namespace hearth
