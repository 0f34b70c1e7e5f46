// The time at which tests render templates: Friday, 2024-07-26 12:34:56. It equals FROZEN_NOW in
// tests/server/jinja/jinja_reference.py.
#pragma once
#include <ctime>

namespace hearth::tests {

inline std::tm frozen_clock() {
  std::tm now{};
  now.tm_year = 124;
  now.tm_mon = 6;
  now.tm_mday = 26;
  now.tm_hour = 12;
  now.tm_min = 34;
  now.tm_sec = 56;
  now.tm_wday = 5;
  now.tm_yday = 207;
  return now;
}

}  // namespace hearth::tests
