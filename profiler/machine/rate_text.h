// Formats rates and times for people.
#pragma once

#include <string>

namespace hearth {

/// "0.0314", "8.21", "123", "12,345": three significant digits, or all digits before the point. REQUIRES:
/// finite and not negative.
std::string rate_text(double rate);

/// A remaining time: "12 s", "3 min 20 s", "2 h 05 min".
std::string time_left_text(double seconds);

}  // namespace hearth
