// Numbers between bounds and multiples: every short number is compared with exact arithmetic; then bounds
// with many digits.
#include "engine/constraint/schema/numbers/numbers.h"

#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/grammar_matcher.h"

using namespace hearth;

namespace {

/// Numbers as JSON writes them: a sign, up to 3 digits, up to 2 fraction digits.
std::vector<std::string> short_numbers() {
  std::vector<std::string> all;
  for (const char* sign : {"", "-"})
    for (const int whole : {0, 1, 2, 5, 9, 10, 11, 19, 20, 35, 99, 100, 101, 125, 150, 999})
      for (const char* places : {"", ".0", ".5", ".05", ".25", ".50", ".9", ".99", ".00", ".01"})
        all.push_back(sign + std::to_string(whole) + places);
  return all;
}

bool is_minus_zero(const std::string& text) {
  return text.starts_with("-0") && text.find_first_of("123456789") == std::string::npos;
}

size_t places_of(const std::string& text) {
  const size_t point = text.find('.');
  return point == std::string::npos ? 0 : text.size() - point - 1;
}

/// The expression must match exactly the short numbers within the limits. Integers are written without
/// fraction digits, and multiples with at most as many fraction digits as their divisor has.
void check_numbers(const NumberLimits& limits, const std::string& name) {
  Grammar grammar;
  const Grammar::Expr expression = number_expression(grammar, limits);
  test::GrammarMatcher matcher(grammar);
  size_t most_places = limits.integer ? 0 : 2;
  for (const Decimal& step : limits.multiples_of) most_places = std::min(most_places, step.fraction.size());
  std::string wrong;
  for (const std::string& text : short_numbers()) {
    const bool expected =
        places_of(text) <= most_places && !is_minus_zero(text) && satisfies(*parse_decimal(text), limits);
    if (matcher.matches(text, expression) != expected) wrong += " " + text;
  }
  INFO(name);
  CHECK(wrong == "");
}

NumberBound bound(const std::string& text, bool inclusive) { return {*parse_decimal(text), inclusive}; }

bool number_matches(const NumberLimits& limits, const std::string& text) {
  Grammar grammar;
  const Grammar::Expr expression = number_expression(grammar, limits);
  return test::GrammarMatcher(grammar).matches(text, expression);
}

}  // namespace

TEST_CASE("decimals: values, order and multiples") {
  CHECK(decimal_text(*parse_decimal("-012.500e1")) == "-125");
  CHECK(decimal_text(*parse_decimal("12.5e-3")) == "0.0125");
  CHECK(decimal_text(*parse_decimal("-0.0")) == "0");
  CHECK(*parse_decimal("1") == *parse_decimal("1.0"));
  CHECK(*parse_decimal("-2") < *parse_decimal("-1.5"));
  CHECK(*parse_decimal("10") > *parse_decimal("9.99"));
  CHECK(*parse_decimal("0.10") > *parse_decimal("0.09"));
  CHECK_FALSE(parse_decimal("1e401"));
  CHECK(parse_decimal("1e-400"));
  CHECK_FALSE(parse_decimal("1e99999999999999999999"));
  CHECK(is_multiple(*parse_decimal("0.07"), *parse_decimal("0.01")) == true);
  CHECK(is_multiple(*parse_decimal("-123456789012345678901234567891"), *parse_decimal("7")) == false);
  CHECK(is_multiple(*parse_decimal("0.075"), *parse_decimal("0.01")) == false);
  CHECK(decimal_text(unscaled(-5, 3)) == "-0.005");
}

TEST_CASE("numbers: all short numbers between pairs of bounds") {
  const std::vector<std::string> bounds{"-100.5", "-20",  "-0.05", "0",    "0.25",
                                        "5",      "9.99", "10",    "19.5", "125"};
  for (const bool integer : {false, true})
    for (const bool inclusive : {false, true})
      for (size_t i = 0; i < bounds.size(); ++i) {
        const std::string kind =
            (integer ? "integers " : "numbers ") + std::string(inclusive ? "from " : "above ");
        check_numbers({.integer = integer, .least = bound(bounds[i], inclusive)}, kind + bounds[i]);
        check_numbers({.integer = integer, .most = bound(bounds[i], inclusive)},
                      kind + "... to " + bounds[i]);
        for (size_t j = i; j < bounds.size(); ++j)
          check_numbers({.integer = integer,
                         .least = bound(bounds[i], inclusive),
                         .most = bound(bounds[j], !inclusive)},
                        kind + bounds[i] + " to " + bounds[j]);
      }
}

TEST_CASE("numbers: multiples in each way that they are written") {
  for (const char* step : {"1", "2", "5", "20", "25", "3", "7", "35", "0.5", "0.25", "0.01", "1.5"}) {
    const std::vector<Decimal> steps{*parse_decimal(step)};
    const bool whole = steps[0].is_integer();
    check_numbers(
        {.integer = true, .least = bound("-20", true), .most = bound("150.5", true), .multiples_of = steps},
        "listed " + std::string(step));
    // it has prime factors other than 2 and 5, and is not an integer
    if (std::string(step) == "1.5") continue;
    check_numbers({.integer = whole, .multiples_of = steps}, "all multiples of " + std::string(step));
    check_numbers({.integer = whole, .least = bound("0", false), .multiples_of = steps},
                  "positive multiples of " + std::string(step));
    check_numbers({.integer = whole, .most = bound("0", true), .multiples_of = steps},
                  "multiples up to 0 of " + std::string(step));
  }
  check_numbers({.integer = true,
                 .least = bound("15", true),
                 .multiples_of = {*parse_decimal("5"), *parse_decimal("2")}},
                "of 10 from 15 on");
  check_numbers({.integer = true, .multiples_of = {*parse_decimal("6"), *parse_decimal("10")}}, "of 30");
}

TEST_CASE("numbers: bounds of many digits are exact") {
  const NumberLimits int64{.integer = true,
                           .least = bound("-9223372036854775808", true),
                           .most = bound("9223372036854775807", true)};
  for (const char* text : {"9223372036854775807", "-9223372036854775808", "0", "999999999999999999"})
    CHECK(number_matches(int64, text));
  for (const char* text : {"9223372036854775808", "-9223372036854775809", "10000000000000000000"})
    CHECK_FALSE(number_matches(int64, text));
  const NumberLimits narrow{.least = bound("0.1000000000000000055511", true),
                            .most = bound("0.1000000000000000055512", false)};
  CHECK(number_matches(narrow, "0.1000000000000000055511"));
  CHECK_FALSE(number_matches(narrow, "0.1000000000000000055512"));
  CHECK_FALSE(number_matches(narrow, "0.100000000000000005551"));
}

TEST_CASE("numbers: lengths are bounded") {
  CHECK(number_matches({.integer = true}, std::string(20, '9')));
  CHECK_FALSE(number_matches({.integer = true}, std::string(21, '9')));
  CHECK(number_matches({}, "0." + std::string(15, '3')));
  CHECK_FALSE(number_matches({}, "0." + std::string(16, '3')));
  CHECK(number_matches({.most = bound("1e300", true)}, std::string(20, '9')));
  CHECK_FALSE(number_matches({.most = bound("1e300", true)}, "1e5"));
}
