// Rates for people.
#pragma once

#include <string>

namespace hearth {

/// "0.0314", "8.21", "123", "12,345": three digits, or all before the point. REQUIRES: not negative, finite.
std::string rate_text(double rate);

}  // namespace hearth
