// Text of URLs: percent-decoding, and the parameters after a path's '?'.
//
// Pure; called by the transport and by handlers on HTTP threads.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hearth {

/// "%41b" -> "Ab". A percent sign that is not followed by two hexadecimal digits stays.
std::string percent_decoded(std::string_view text);

/// The value of the first parameter with that name, percent-decoded, with '+' as a space; empty if it has no
/// value. nullopt if the parameter is absent. query: HttpRequest::query.
std::optional<std::string> query_value(std::string_view query, std::string_view name);

}  // namespace hearth
