#include "engine/constraint/schema/numbers/multiples.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "engine/constraint/schema/numbers/range.h"

namespace hearth {
namespace {

using Expr = Grammar::Expr;

constexpr int64_t kMaxListed = 1000;
constexpr size_t kMaxPlaces = 15;

int64_t power_of_ten(size_t exponent) {
  int64_t power = 1;
  for (size_t i = 0; i < exponent; ++i) power *= 10;
  return power;
}

Expr free_digits(Grammar& grammar, int least, int most) {
  return grammar.repeat(grammar.byte(byte_range('0', '9')), least, most);
}

/// Returns the texts of all multiples between the bounds; nullopt if there are too many or if a bound is
/// missing.
std::optional<Expr> listed(Grammar& grammar, const NumberLimits& limits) {
  if (!limits.least || !limits.most) return {};
  const Decimal& divisor = limits.multiples_of[0];
  const size_t places = std::max(
      {divisor.fraction.size(), limits.least->value.fraction.size(), limits.most->value.fraction.size()});
  const auto unit = scaled(divisor, places), first = scaled(limits.least->value, places),
             last = scaled(limits.most->value, places);
  if (!unit || !first || !last || (*last - *first) / *unit > kMaxListed) return {};
  std::vector<Expr> options;
  for (int64_t n = *first / *unit - 1; n <= *last / *unit + 1; ++n) {
    const Decimal value = unscaled(n * *unit, places);
    if (satisfies(value, limits)) options.push_back(grammar.literal(decimal_text(value)));
  }
  return grammar.choice(options);
}

/// A divisor written as count / 10^places.
struct Divisor {
  int64_t count;
  size_t places;
  // whether a number x is a multiple depends only on this many last digits of x * 10^places
  size_t n_last_digits;
};

/// Returns nullopt if the divisor has prime factors other than 2 and 5, or too many digits.
std::optional<Divisor> last_digits_divisor(const Decimal& divisor) {
  const size_t places = divisor.fraction.size();
  const auto count = scaled(divisor, places);
  if (!count || places > kMaxPlaces) return {};
  for (size_t n = 0; n <= kMaxPlaces; ++n)
    if (power_of_ten(n) % *count == 0) return Divisor{*count, places, n};
  return {};
}

/// Writes all multiples of a divisor, however large and of either sign. A multiple may be written with fewer
/// fraction digits than the divisor has. So this class lists, for each number of fraction digits that may be
/// written, the final digits that a multiple can have.
class LastDigits {
 public:
  LastDigits(Grammar& grammar, const Divisor& divisor) : grammar_(grammar), divisor_(divisor) {}

  Expr multiples() {
    std::vector<Expr> options;
    for (size_t written = 0; written <= divisor_.places; ++written) options.push_back(with_places(written));
    return grammar_.sequence({grammar_.optional(grammar_.literal("-")), grammar_.choice(options)});
  }

 private:
  Expr with_places(size_t written) {
    const size_t zeros = divisor_.places - written;
    if (zeros >= divisor_.n_last_digits)
      return number(free_whole(), written == 0 ? std::nullopt : std::optional(digits(written)));
    const size_t n = divisor_.n_last_digits - zeros;
    const int64_t unit = divisor_.count / std::gcd(divisor_.count, power_of_ten(zeros));
    if (power_of_ten(n) / unit > kMaxListed)
      throw ConstraintError("Multiples of such a small number cannot be enforced; leave multipleOf out.", "");
    std::vector<Expr> options;
    for (int64_t last = 0; last < power_of_ten(n); last += unit) {
      std::string text = std::to_string(last);
      text.insert(0, n - text.size(), '0');
      options.push_back(ending_in(text, written));
    }
    return grammar_.choice(options);
  }

  /// Returns the numbers with `written` fraction digits that end in the digits `last`.
  Expr ending_in(const std::string& last, size_t written) {
    if (written == 0) return whole_ending_in(last);
    if (last.size() <= written)
      return number(free_whole(), grammar_.sequence({digits(written - last.size()), grammar_.literal(last)}));
    const size_t n_whole = last.size() - written;
    return number(whole_ending_in(last.substr(0, n_whole)), grammar_.literal(last.substr(n_whole)));
  }

  Expr whole_ending_in(const std::string& last) {
    const size_t first = std::min(last.find_first_not_of('0'), last.size() - 1);
    return grammar_.choice(
        {grammar_.literal(last.substr(first)), grammar_.sequence({from_one(), grammar_.literal(last)})});
  }

  Expr free_whole() { return grammar_.choice({grammar_.literal("0"), from_one()}); }
  /// Returns any integer from 1 up.
  Expr from_one() {
    return grammar_.sequence(
        {grammar_.byte(byte_range('1', '9')), free_digits(grammar_, 0, Grammar::kNoMaximum)});
  }
  Expr digits(size_t n) { return free_digits(grammar_, static_cast<int>(n), static_cast<int>(n)); }

  Expr number(Expr whole, std::optional<Expr> places) {
    if (!places) return whole;
    return grammar_.sequence({whole, grammar_.literal("."), *places});
  }

  Grammar& grammar_;
  Divisor divisor_;
};

/// Returns the numbers within the bounds whose final digits make them multiples of all divisors; nullopt if a
/// divisor has prime factors other than 2 and 5.
std::optional<Expr> by_last_digits(Grammar& grammar, const NumberLimits& limits) {
  std::vector<Divisor> divisors;
  size_t places = 0;
  for (const Decimal& multiple : limits.multiples_of) {
    const auto divisor = last_digits_divisor(multiple);
    if (!divisor) return {};
    divisors.push_back(*divisor);
    places = std::max(places, divisor->places);
  }
  Expr all = number_range(grammar, limits, places);
  for (const Divisor& divisor : divisors) all = grammar.both(all, LastDigits(grammar, divisor).multiples());
  return all;
}

std::optional<int64_t> least_common_multiple(const std::vector<Decimal>& divisors) {
  int64_t common = 1;
  for (const Decimal& divisor : divisors) {
    const auto value = scaled(divisor, 0);
    if (!value) return {};
    common = std::lcm(common, std::min<int64_t>(*value, kMaxResidues + 1));
    if (common > kMaxResidues) return {};
  }
  return common;
}

/// Returns one rule for each remainder, [divisor]. Rule r matches the remaining digits of a number whose
/// digits so far have the remainder r.
std::vector<Grammar::Rule> remainder_rules(Grammar& grammar, int64_t divisor) {
  std::vector<Grammar::Rule> rules;
  for (int64_t r = 0; r < divisor; ++r)
    rules.push_back(
        grammar.declare("multiple of " + std::to_string(divisor) + ", remainder " + std::to_string(r)));
  for (int64_t r = 0; r < divisor; ++r) {
    std::vector<Expr> options;
    if (r == 0) options.push_back(grammar.empty());
    for (char digit = '0'; digit <= '9'; ++digit) {
      const auto then = static_cast<size_t>((r * 10 + (digit - '0')) % divisor);
      options.push_back(grammar.sequence({grammar.literal({&digit, 1}), grammar.call(rules[then])}));
    }
    grammar.define(rules[static_cast<size_t>(r)], grammar.choice(options));
  }
  return rules;
}

/// Returns the multiples of an integer that have the chosen signs.
Expr by_remainder(Grammar& grammar, int64_t divisor, bool with_negative, bool with_zero, bool with_positive) {
  const std::vector<Grammar::Rule> rules = remainder_rules(grammar, divisor);
  std::vector<Expr> firsts;
  for (char digit = '1'; digit <= '9'; ++digit) {
    const auto then = static_cast<size_t>((digit - '0') % divisor);
    firsts.push_back(grammar.sequence({grammar.literal({&digit, 1}), grammar.call(rules[then])}));
  }
  const Expr positive = grammar.choice(firsts);
  std::vector<Expr> options;
  if (with_zero) options.push_back(grammar.literal("0"));
  if (with_positive) options.push_back(positive);
  if (with_negative) options.push_back(grammar.sequence({grammar.literal("-"), positive}));
  return grammar.choice(options);
}

/// Returns the multiples of an integer within bounds that restrict only the sign; nullopt for other bounds.
/// For example, a minimum is supported only if it excludes all negative multiples and allows all positive
/// ones.
std::optional<Expr> by_remainder_and_sign(Grammar& grammar, int64_t divisor, const NumberLimits& limits) {
  const bool with_positive = satisfies(unscaled(divisor, 0), limits),
             with_negative = satisfies(unscaled(-divisor, 0), limits);
  if (limits.least && (with_negative || !with_positive)) return {};
  if (limits.most && (with_positive || !with_negative)) return {};
  return by_remainder(grammar, divisor, with_negative, satisfies({}, limits), with_positive);
}

}  // namespace

Expr number_multiples(Grammar& grammar, const NumberLimits& limits) {
  if (const auto few = listed(grammar, limits)) return *few;
  if (const auto expression = by_last_digits(grammar, limits)) return *expression;
  const auto divisor = least_common_multiple(limits.multiples_of);
  if (divisor && (!limits.least || !limits.most))
    if (const auto expression = by_remainder_and_sign(grammar, *divisor, limits)) return *expression;
  throw ConstraintError(
      "These multiples cannot be enforced; supported are a multipleOf whose prime factors are 2 and 5, an "
      "integer up to " +
          std::to_string(kMaxResidues) + " with no other bound than 0, and at most " +
          std::to_string(kMaxListed) + " multiples between two bounds.",
      "");
}

}  // namespace hearth
