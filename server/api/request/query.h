// The parameters behind a path's '?'.
//
// Called by handlers on the HTTP thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hearth {

/// The value of the first parameter of that name, percent-decoded, '+' read as a space; empty if it stands without a value.
/// nullopt: it is not there. query: HttpRequest::query.
std::optional<std::string> query_value(std::string_view query, std::string_view name);

}  // namespace hearth
