// Text of URLs: percent-decoding, and the parameters behind a path's '?'.
//
// Pure; called by the transport and by handlers on HTTP threads.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hearth {

/// "%41b" -> "Ab". A percent sign that no two hexadecimal digits follow stands for itself.
std::string percent_decoded(std::string_view text);

/// The value of the first parameter of that name, percent-decoded, '+' read as a space; empty if it stands without a value.
/// nullopt: it is not there. query: HttpRequest::query.
std::optional<std::string> query_value(std::string_view query, std::string_view name);

}  // namespace hearth
