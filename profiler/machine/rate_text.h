// Rates and times for people.
#pragma once

#include <string>

namespace hearth {

/// "0.0314", "8.21", "123", "12,345": three digits, or all before the point. REQUIRES: not negative, finite.
std::string rate_text(double rate);

/// "12 s", "3 min 20 s", "2 h 05 min": a time left.
std::string time_left_text(double seconds);

}  // namespace hearth
