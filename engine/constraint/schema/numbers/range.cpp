#include "engine/constraint/schema/numbers/range.h"

#include <algorithm>
#include <string_view>
#include <vector>

namespace hearth {
namespace {

using Expr = Grammar::Expr;

/// Two different decimals with at most this many digits are different doubles.
constexpr size_t kDoubleDigits = 15;

/// For each bound, whether the digits so far equal the bound's digits. If they do, the next digit must not
/// pass the bound's next digit.
struct Tight {
  bool least = false, most = false;
};

/// Writes the numbers >= 0 between two bounds. As long as the digits so far equal those of a bound, the next
/// digit must not pass that bound's digit (Tight). After a digit that differs, any digit may follow.
class Magnitudes {
 public:
  /// places: the maximum number of fraction digits; 0 for integers.
  Magnitudes(Grammar& grammar, NumberBound least, std::optional<NumberBound> most, size_t places)
      : grammar_(grammar), least_(std::move(least)), most_(std::move(most)), places_(places) {}

  Expr numbers() const {
    const bool from_zero = least_.value.is_zero() && least_.inclusive;
    const size_t shortest = least_.value.whole.size();
    const size_t longest = most_ ? most_->value.whole.size() : kMaxWholeDigits;
    std::vector<Expr> options;
    size_t first_free = 0, last_free = 0;
    for (size_t length = shortest; length <= longest; ++length) {
      const Tight tight{.least = length == shortest && !from_zero, .most = most_ && length == longest};
      if (tight.least || tight.most) {
        options.push_back(whole(length, 0, tight));
      } else {
        if (first_free == 0) first_free = length;
        last_free = length;
      }
    }
    if (first_free != 0) options.push_back(free_numbers(first_free, last_free));
    return grammar_.choice(options);
  }

 private:
  Expr digits(size_t least, size_t most) const {
    return grammar_.repeat(grammar_.byte(byte_range('0', '9')), static_cast<int>(least),
                           static_cast<int>(most));
  }

  /// Returns all numbers whose whole part has least_digits to most_digits digits.
  Expr free_numbers(size_t least_digits, size_t most_digits) const {
    std::vector<Expr> wholes;
    if (least_digits == 1) wholes.push_back(grammar_.byte(byte_range('0', '9')));
    const size_t least = std::max<size_t>(least_digits, 2);
    if (most_digits >= least)
      wholes.push_back(
          grammar_.sequence({grammar_.byte(byte_range('1', '9')), digits(least - 1, most_digits - 1)}));
    return grammar_.sequence({grammar_.choice(wholes), free_fraction()});
  }

  Expr free_fraction() const {
    if (places_ == 0) return grammar_.empty();
    return grammar_.optional(grammar_.sequence({grammar_.literal("."), digits(1, places_)}));
  }

  /// Returns the digits of the whole part from index `place` on, and everything that follows them.
  Expr whole(size_t length, size_t place, Tight tight) const {
    if (place == length) return fraction(tight);
    if (!tight.least && !tight.most)
      return grammar_.sequence({digits(length - place, length - place), free_fraction()});
    const char low = tight.least ? least_.value.whole[place] : (place == 0 && length > 1) ? '1' : '0';
    const char high = tight.most ? most_->value.whole[place] : '9';
    return next_digit(low, high, tight, [&](Tight then) { return whole(length, place + 1, then); });
  }

  Expr fraction(Tight tight) const {
    if (!tight.least && !tight.most) return free_fraction();
    std::vector<Expr> options;
    if (may_end(0, tight)) options.push_back(grammar_.empty());
    if (places_ > 0) options.push_back(grammar_.sequence({grammar_.literal("."), more_places(0, tight)}));
    return grammar_.choice(options);
  }

  /// Returns at least one more fraction digit.
  Expr more_places(size_t place, Tight tight) const {
    if (!tight.least && !tight.most) return digits(1, places_ - place);
    const auto digit_of = [&](const Decimal& d) {
      return place < d.fraction.size() ? d.fraction[place] : '0';
    };
    const char low = tight.least ? digit_of(least_.value) : '0';
    const char high = tight.most ? digit_of(most_->value) : '9';
    return next_digit(low, high, tight, [&](Tight then) { return places_from(place + 1, then); });
  }

  Expr places_from(size_t place, Tight tight) const {
    if (!tight.least && !tight.most) return digits(0, places_ - place);
    std::vector<Expr> options;
    if (may_end(place, tight)) options.push_back(grammar_.empty());
    if (place < places_) options.push_back(more_places(place, tight));
    return grammar_.choice(options);
  }

  /// Writes each digit from low to high, followed by rest(). A bound stays tight only if the digit equals
  /// that bound's digit.
  template <typename Rest>
  Expr next_digit(char low, char high, Tight tight, const Rest& rest) const {
    std::vector<Expr> options;
    const auto add = [&](char first, char last, Tight then) {
      if (first <= last)
        options.push_back(grammar_.sequence({grammar_.byte(byte_range(first, last)), rest(then)}));
    };
    if (low > high) return grammar_.nothing();
    if (low == high) {
      add(low, high, tight);
      return grammar_.choice(options);
    }
    if (tight.least) add(low, low, {.least = true, .most = false});
    if (tight.most) add(high, high, {.least = false, .most = true});
    add(static_cast<char>(tight.least ? low + 1 : low), static_cast<char>(tight.most ? high - 1 : high), {});
    return grammar_.choice(options);
  }

  /// Returns whether a number may end after `place` fraction digits, if its digits so far equal those of the
  /// tight bounds.
  bool may_end(size_t place, Tight tight) const {
    const auto is_whole_bound = [&](const Decimal& d) { return d.fraction.size() <= place; };
    if (tight.least && !(is_whole_bound(least_.value) && least_.inclusive)) return false;
    return !tight.most || !is_whole_bound(most_->value) || most_->inclusive;
  }

  Grammar& grammar_;
  NumberBound least_;
  std::optional<NumberBound> most_;
  size_t places_;
};

/// Returns the maximum number of fraction digits to allow: as many as a double can distinguish, but at least
/// as many as the bounds have.
size_t most_places(const NumberLimits& limits, size_t least_places) {
  if (limits.integer) return 0;
  size_t whole = 1, places = least_places;
  for (const auto& bound : {limits.least, limits.most}) {
    if (!bound) continue;
    whole = std::max(whole, bound->value.whole.size());
    places = std::max(places, bound->value.fraction.size());
  }
  return std::max(places, kDoubleDigits - std::min(whole, kDoubleDigits));
}

NumberBound without_sign(NumberBound bound) {
  bound.value.negative = false;
  return bound;
}

/// Returns the bound, or nullopt if it has more than kMaxWholeDigits digits before the point, so that no
/// number reaches it.
std::optional<NumberBound> reachable(const std::optional<NumberBound>& bound) {
  return bound && bound->value.whole.size() <= kMaxWholeDigits ? bound : std::nullopt;
}

Expr unbounded_number(Grammar& grammar) {
  const Expr positive = Magnitudes(grammar, {.value = {}, .inclusive = false}, {}, kDoubleDigits).numbers();
  const Expr number = grammar.choice({Magnitudes(grammar, {}, {}, kDoubleDigits).numbers(),
                                      grammar.sequence({grammar.literal("-"), positive})});
  const Expr exponent =
      grammar.sequence({grammar.byte(byte_set("eE")), grammar.optional(grammar.byte(byte_set("+-"))),
                        grammar.repeat(grammar.byte(byte_range('0', '9')), 1, 2)});
  return grammar.sequence({number, grammar.optional(exponent)});
}

}  // namespace

Expr number_range(Grammar& grammar, const NumberLimits& limits, size_t least_places) {
  if (!limits.integer && !limits.least && !limits.most && limits.multiples_of.empty())
    return unbounded_number(grammar);
  const size_t places = most_places(limits, least_places);
  const std::optional<NumberBound>&least = limits.least, &most = limits.most;
  const NumberBound zero{}, above_zero{.value = {}, .inclusive = false};
  std::vector<Expr> options;
  if (!most || !most->value.negative) {
    const NumberBound from = least && !least->value.negative ? *least : zero;
    if (from.value.whole.size() <= kMaxWholeDigits)
      options.push_back(Magnitudes(grammar, from, reachable(most), places).numbers());
  }
  if (!least || least->value.negative) {
    const NumberBound from = most && most->value.negative ? without_sign(*most) : above_zero;
    const std::optional<NumberBound> to = least ? std::optional(without_sign(*least)) : std::nullopt;
    if (from.value.whole.size() <= kMaxWholeDigits)
      options.push_back(grammar.sequence(
          {grammar.literal("-"), Magnitudes(grammar, from, reachable(to), places).numbers()}));
  }
  return grammar.choice(options);
}

}  // namespace hearth
