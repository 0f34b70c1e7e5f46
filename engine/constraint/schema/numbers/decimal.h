// Decimal numbers of any length, exactly as written in JSON. The bounds and values of a JSON schema may not
// fit in a double.
//
// Used by numbers.h and by comparisons of JSON values. Pure functions, any thread.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hearth {

struct Decimal {
  bool negative = false;      // never for zero
  std::string whole = "0";    // digits before the point, without leading zeros
  std::string fraction = "";  // digits after the point, without trailing zeros

  bool is_integer() const { return fraction.empty(); }
  bool is_zero() const { return whole == "0" && fraction.empty(); }
};

/// Returns the value of a JSON number; nullopt if its exponent is above 400 or below -400, or if it has more
/// than 400 characters. REQUIRES: json_number matches JSON's grammar of numbers.
std::optional<Decimal> parse_decimal(std::string_view json_number);

std::strong_ordering operator<=>(const Decimal& a, const Decimal& b);
inline bool operator==(const Decimal& a, const Decimal& b) {
  return (a <=> b) == std::strong_ordering::equal;
}

/// Returns value * 10^places; nullopt unless that is an integer of at most 18 digits.
std::optional<int64_t> scaled(const Decimal& value, size_t places);
/// Returns value / 10^places.
Decimal unscaled(int64_t value, size_t places);
/// Returns the number as JSON, without an exponent.
std::string decimal_text(const Decimal& value);
/// Whether value is an integer multiple of step; nullopt if step has more than 15 digits. REQUIRES: step > 0.
std::optional<bool> is_multiple(const Decimal& value, const Decimal& step);

}  // namespace hearth
