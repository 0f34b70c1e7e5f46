// Formats of strings in JSON schemas, as regular expressions of texts that have the format. Each matches a part of the format's
// texts, so that whatever is written has the format under any reading: years from 1000 on, no leap seconds, no IPv4 tails in
// IPv6 addresses, host names of letters, digits and single hyphens.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hearth {

/// A pattern (regex.h) for whole texts; nothing for a format that is not supported.
std::optional<std::string_view> format_pattern(std::string_view format);

/// "date, date-time, ...": what is supported, for messages.
std::string supported_formats();

}  // namespace hearth
