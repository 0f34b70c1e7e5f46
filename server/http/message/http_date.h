// Formats a time for the Date header (RFC 9110, 5.6.7). Pure.
#pragma once

#include <ctime>
#include <string>

namespace hearth {

/// Returns, for example, "Sun, 06 Nov 1994 08:49:37 GMT". time: Unix seconds.
std::string http_date(std::time_t time);

}  // namespace hearth
