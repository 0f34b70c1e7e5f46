// Text of URLs: percent-decoding, and the parameters after a path's '?'.
//
// Pure functions; the HTTP server and handlers call them on worker threads.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hearth {

/// Example: "%41b" -> "Ab". A percent sign that is not followed by two hexadecimal digits stays.
std::string percent_decoded(std::string_view text);

/// Returns the value of the first parameter with this name, percent-decoded, with '+' as a space. Empty if
/// the parameter has no value; nullopt if it is absent. query: HttpRequest::query.
std::optional<std::string> query_value(std::string_view query, std::string_view name);

}  // namespace hearth
