// Formats rates and times for people.
#pragma once

#include <string>

#include "engine/placement/machine_profile.h"

namespace hearth {

/// Formats a rate with three significant digits, or with all digits before the decimal point: "0.0314",
/// "8.21", "123", "12,345". REQUIRES: rate is finite and not negative.
std::string rate_text(double rate);

/// Formats the rate of reads with its spread, if the spread is known: "27.1 GB/s (25.9 to 27.4)".
std::string rate_text(const ReadRate& rate);

/// Formats the rate of the number of threads that read fastest. REQUIRES: the machine has a rate.
std::string read_rate_text(const MachineProfile& machine);

/// Formats a remaining time: "12 s", "3 min 20 s", "2 h 05 min".
std::string time_left_text(double seconds);

}  // namespace hearth
