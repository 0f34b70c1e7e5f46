#include "engine/constraint/schema/numbers/decimal.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

namespace hearth {
namespace {

constexpr long kMaxExponent = 400;
constexpr size_t kMaxCharacters = 400;

Decimal normalized(bool negative, std::string whole, std::string fraction) {
  whole.erase(0, std::min(whole.find_first_not_of('0'), whole.size()));
  fraction.erase(fraction.find_last_not_of('0') + 1);
  if (whole.empty()) whole = "0";
  Decimal value{negative, std::move(whole), std::move(fraction)};
  if (value.is_zero()) value.negative = false;
  return value;
}

std::strong_ordering compare_magnitudes(const Decimal& a, const Decimal& b) {
  if (a.whole.size() != b.whole.size()) return a.whole.size() <=> b.whole.size();
  if (const int order = a.whole.compare(b.whole); order != 0) return order <=> 0;
  return a.fraction.compare(b.fraction) <=> 0;
}

/// Returns the digits of value * 10^places, or nullopt if the value has more than `places` fraction digits.
std::optional<std::string> scaled_digits(const Decimal& value, size_t places) {
  if (value.fraction.size() > places) return {};
  std::string digits = value.whole + value.fraction + std::string(places - value.fraction.size(), '0');
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size() - 1));
  return digits;
}

}  // namespace

std::optional<Decimal> parse_decimal(std::string_view json_number) {
  if (json_number.size() > kMaxCharacters) return {};
  const bool negative = json_number.starts_with('-');
  if (negative) json_number.remove_prefix(1);
  long exponent = 0;
  if (const size_t e = json_number.find_first_of("eE"); e != std::string_view::npos) {
    const std::string digits(json_number.substr(e + 1));
    exponent = std::strtol(digits.c_str(), nullptr, 10);  // strtol saturates at long's range
    json_number = json_number.substr(0, e);
  }
  const size_t point = std::min(json_number.find('.'), json_number.size());
  std::string whole(json_number.substr(0, point));
  std::string fraction(point < json_number.size() ? json_number.substr(point + 1) : "");
  if (exponent > kMaxExponent || exponent < -kMaxExponent) return {};
  if (exponent > 0) {
    fraction.resize(std::max(fraction.size(), static_cast<size_t>(exponent)), '0');
    whole += fraction.substr(0, static_cast<size_t>(exponent));
    fraction.erase(0, static_cast<size_t>(exponent));
  } else if (exponent < 0) {
    const auto n = static_cast<size_t>(-exponent);
    if (whole.size() < n) whole.insert(0, n - whole.size(), '0');
    fraction.insert(0, whole.substr(whole.size() - n));
    whole.erase(whole.size() - n);
  }
  return normalized(negative, std::move(whole), std::move(fraction));
}

std::strong_ordering operator<=>(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative)
    return a.negative ? std::strong_ordering::less : std::strong_ordering::greater;
  return a.negative ? compare_magnitudes(b, a) : compare_magnitudes(a, b);
}

std::optional<int64_t> scaled(const Decimal& value, size_t places) {
  const std::optional<std::string> digits = scaled_digits(value, places);
  if (!digits || digits->size() > 18) return {};
  int64_t number = 0;
  std::from_chars(digits->data(), digits->data() + digits->size(), number);
  return value.negative ? -number : number;
}

Decimal unscaled(int64_t value, size_t places) {
  std::string digits = std::to_string(value < 0 ? -value : value);
  if (digits.size() <= places) digits.insert(0, places + 1 - digits.size(), '0');
  std::string fraction = digits.substr(digits.size() - places);
  digits.erase(digits.size() - places);
  return normalized(value < 0, std::move(digits), std::move(fraction));
}

std::string decimal_text(const Decimal& value) {
  std::string text = value.negative ? "-" : "";
  text += value.whole;
  if (!value.fraction.empty()) text.append(".").append(value.fraction);
  return text;
}

std::optional<bool> is_multiple(const Decimal& value, const Decimal& step) {
  const std::optional<std::string> step_digits = scaled_digits(step, step.fraction.size());
  if (!step_digits || step_digits->size() > 15) return {};
  if (value.fraction.size() > step.fraction.size()) return false;
  const int64_t divisor = *scaled(step, step.fraction.size());
  int64_t rest = 0;
  const std::optional<std::string> digits = scaled_digits(value, step.fraction.size());
  for (const char digit : *digits) rest = (rest * 10 + (digit - '0')) % divisor;
  return rest == 0;
}

}  // namespace hearth
