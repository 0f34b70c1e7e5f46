// Formats of strings in JSON schemas, as regular expressions. Each matches a subset of the format, so that
// every text has the format under any reading: years from 1000 on, no leap seconds, no IPv4 tails in IPv6
// addresses, host names of letters, digits and single hyphens.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hearth {

/// Returns a pattern (regex.h) for whole texts; nullopt for an unsupported format.
std::optional<std::string_view> format_pattern(std::string_view format);

/// Returns "date, date-time, ...": the supported formats, for messages.
std::string supported_formats();

}  // namespace hearth
