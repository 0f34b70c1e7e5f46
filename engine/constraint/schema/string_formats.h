// Formats of strings in JSON schemas, as regular expressions. Each expression matches only texts that have
// the format by every interpretation of the format's standard. Years therefore start at 1000, leap seconds
// and IPv4 parts in IPv6 addresses do not occur, and the labels of host names consist only of letters, digits
// and single hyphens.
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
