// Filters on numbers, and those that reduce a sequence to one: int, float, abs, round, sum, min, max.
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>

#include "server/jinja/attribute_path.h"
#include "server/jinja/builtins.h"
#include "server/jinja/evaluator.h"
#include "server/jinja/operators.h"
#include "server/jinja/unicode.h"

namespace hearth::jinja {
namespace {

// A number's text as Python's int() and float() clean it: no white space around, no underscores between
// digits, no plus.
std::string cleaned(std::string_view text) {
  text = strip(text, Side::both);
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool joins = text[i] == '_' && i > 0 && i + 1 < text.size() && text[i - 1] != '_';
    if (!joins) out += text[i];
  }
  if (out.size() > 1 && out[0] == '+' && out[1] != '-') out.erase(0, 1);
  return out;
}

std::optional<std::int64_t> parse_integer(std::string_view text, int base) {
  std::string digits = cleaned(text);
  const std::size_t sign = !digits.empty() && digits[0] == '-' ? 1 : 0;
  const char prefix = base == 16 ? 'x' : base == 8 ? 'o' : base == 2 ? 'b' : 0;
  if (prefix && digits.size() > sign + 2 && digits[sign] == '0' && (digits[sign + 1] | 0x20) == prefix) {
    digits.erase(sign, 2);
  }
  std::int64_t value = 0;
  const char* last = digits.data() + digits.size();
  const auto [end, error] = std::from_chars(digits.data(), last, value, base);
  if (error != std::errc() || end != last || digits.empty()) return std::nullopt;
  return value;
}

std::optional<double> parse_real(std::string_view text) {
  const std::string digits = cleaned(text);
  double value = 0;
  const char* last = digits.data() + digits.size();
  const auto [end, error] = std::from_chars(digits.data(), last, value);
  if (error != std::errc() || end != last || digits.empty()) return std::nullopt;
  return value;
}

// int(double): nothing when it is no 64-bit integer.
std::optional<std::int64_t> truncated(double d) {
  if (!(std::abs(d) < 9.2e18)) return std::nullopt;
  return static_cast<std::int64_t>(d);
}

Value to_int(Evaluator&, const Value& self, const Args& args) {
  const Params p("int", args, {"default", "base"});
  const Value otherwise = p[0] ? *p[0] : Value::integer(0);
  if (self.is_undefined()) fail_undefined(self);
  if (self.is_integral()) return Value::integer(self.integral());
  std::optional<std::int64_t> value;
  if (self.is_real()) {
    value = truncated(self.number());
  } else if (self.is_text()) {
    const std::int64_t base = p.integer(1, 10);
    if (base < 2 || base > 36) throw Failure("int: base must be from 2 to 36");
    value = parse_integer(self.text(), static_cast<int>(base));
    if (!value) {
      if (const std::optional<double> real = parse_real(self.text())) value = truncated(*real);
    }
  }
  return value ? Value::integer(*value) : otherwise;
}

Value to_float(Evaluator&, const Value& self, const Args& args) {
  const Params p("float", args, {"default"});
  if (self.is_undefined()) fail_undefined(self);
  if (self.is_number()) return Value::real(self.number());
  const std::optional<double> value = self.is_text() ? parse_real(self.text()) : std::nullopt;
  if (value) return Value::real(*value);
  return p[0] ? *p[0] : Value::real(0);
}

const Value& require_number(const char* filter, const Value& value) {
  if (value.is_undefined()) fail_undefined(value);
  if (!value.is_number()) throw Failure(std::string(filter) + " needs a number, not " + value.type_name());
  return value;
}

Value absolute(Evaluator&, const Value& self, const Args& args) {
  const Params none("abs", args, {});
  require_number("abs", self);
  if (self.is_real()) return Value::real(std::abs(self.number()));
  return self.integral() < 0 ? negate(self) : Value::integer(self.integral());
}

// Python's round(): to the nearest decimal, an exact half to the even digit.
double rounded(double value, int precision) {
  if (!std::isfinite(value)) return value;
  if (precision < 0) {
    const double scale = std::pow(10.0, -precision);
    return std::nearbyint(value / scale) * scale;
  }
  std::array<char, 400> buffer{};  // 309 digits, the point and up to 60 decimals
  const int n = std::snprintf(buffer.data(), buffer.size(), "%.*f", precision, value);
  double result = value;
  std::from_chars(buffer.data(), buffer.data() + n, result);
  return result;
}

Value round(Evaluator&, const Value& self, const Args& args) {
  const Params p("round", args, {"precision", "method"});
  static const std::string kCommon = "common";
  require_number("round", self);
  const std::string& method = p.text(1, kCommon);
  const std::int64_t precision = p.integer(0, 0);
  if (precision < -60 || precision > 60) throw Failure("round: precision must be from -60 to 60");
  if (method == "common") {
    if (self.is_integral() && precision >= 0) return Value::integer(self.integral());
    const double value = rounded(self.number(), static_cast<int>(precision));
    if (!self.is_integral()) return Value::real(value);
    return Value::integer(truncated(value).value_or(0));
  }
  if (method != "ceil" && method != "floor") throw Failure("round: method must be common, ceil or floor");
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = self.number() * scale;
  return Value::real((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

Value sum(Evaluator& e, const Value& self, const Args& args) {
  const Params p("sum", args, {"attribute", "start"});
  const Value* attribute = attribute_param(p, 0);
  Value total = p[1] ? *p[1] : Value::integer(0);
  for (const Value& value : iterate(self, e.heap())) {
    total = arithmetic(Operator::add, total, follow(e, value, attribute), e.heap());
  }
  return total;
}

Value extreme(Evaluator& e, const Value& self, const Args& args, Comparison better) {
  const Params p(better == Comparison::less ? "min" : "max", args, {"case_sensitive", "attribute"});
  const Value* attribute = attribute_param(p, 1);
  const std::vector<Value> items = iterate(self, e.heap());
  if (items.empty()) return e.heap().undefined("No aggregated item, sequence was empty.");
  const auto key = [&](const Value& value) {
    return fold_case(e, follow(e, value, attribute), p.flag(0, false));
  };
  std::size_t best = 0;
  Value best_key = key(items[0]);
  for (std::size_t i = 1; i < items.size(); ++i) {
    const Value k = key(items[i]);
    if (compare(better, k, best_key, e.budget())) {
      best = i;
      best_key = k;
    }
  }
  return items[best];
}

Value minimum(Evaluator& e, const Value& self, const Args& args) {
  return extreme(e, self, args, Comparison::less);
}
Value maximum(Evaluator& e, const Value& self, const Args& args) {
  return extreme(e, self, args, Comparison::greater);
}

}  // namespace

const NativeTable& number_filters() {
  static const NativeTable table = {
      {"int", to_int}, {"float", to_float}, {"abs", absolute}, {"round", round},
      {"sum", sum},    {"min", minimum},    {"max", maximum},
  };
  return table;
}

}  // namespace hearth::jinja
