// Formats rates and times for people.
#pragma once

#include <string>

namespace hearth {

/// Formats a rate with three significant digits, or with all digits before the decimal point: "0.0314",
/// "8.21", "123", "12,345". REQUIRES: rate is finite and not negative.
std::string rate_text(double rate);

/// Formats a remaining time: "12 s", "3 min 20 s", "2 h 05 min".
std::string time_left_text(double seconds);

}  // namespace hearth
