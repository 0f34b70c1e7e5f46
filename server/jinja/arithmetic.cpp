// + - * / // % ** with Python's rules: floor division, true division to float, text and list concatenation
// and repetition, printf-style % on text. Declared in operators.h.
#include <cmath>
#include <limits>

#include "server/jinja/operators.h"
#include "server/jinja/text_format.h"

namespace hearth::jinja {
namespace {

const char* symbol(Operator op) {
  switch (op) {
    case Operator::add:
      return "+";
    case Operator::subtract:
      return "-";
    case Operator::multiply:
      return "*";
    case Operator::divide:
      return "/";
    case Operator::floor_divide:
      return "//";
    case Operator::modulo:
      return "%";
    case Operator::power:
      return "**";
  }
  return "?";
}

[[noreturn]] void fail_overflow() { throw Failure("an integer does not fit into 64 bits"); }

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  if (a == std::numeric_limits<std::int64_t>::min() && b == -1) fail_overflow();
  const std::int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

std::int64_t floor_modulo(std::int64_t a, std::int64_t b) {
  if (b == -1) return 0;
  const std::int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

// b >= 0
std::int64_t integer_power(std::int64_t a, std::int64_t b) {
  std::int64_t result = 1;
  while (b > 0) {
    if ((b & 1) && __builtin_mul_overflow(result, a, &result)) fail_overflow();
    b >>= 1;
    if (b > 0 && __builtin_mul_overflow(a, a, &a)) fail_overflow();
  }
  return result;
}

Value integers(Operator op, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  switch (op) {
    case Operator::add:
      if (__builtin_add_overflow(a, b, &result)) fail_overflow();
      return Value::integer(result);
    case Operator::subtract:
      if (__builtin_sub_overflow(a, b, &result)) fail_overflow();
      return Value::integer(result);
    case Operator::multiply:
      if (__builtin_mul_overflow(a, b, &result)) fail_overflow();
      return Value::integer(result);
    case Operator::divide:
      return Value::real(static_cast<double>(a) / static_cast<double>(b));
    case Operator::floor_divide:
      return Value::integer(floor_divide(a, b));
    case Operator::modulo:
      return Value::integer(floor_modulo(a, b));
    case Operator::power:
      if (b < 0) return Value::real(std::pow(static_cast<double>(a), static_cast<double>(b)));
      return Value::integer(integer_power(a, b));
  }
  return {};
}

double floor_modulo(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

Value reals(Operator op, double a, double b) {
  switch (op) {
    case Operator::add:
      return Value::real(a + b);
    case Operator::subtract:
      return Value::real(a - b);
    case Operator::multiply:
      return Value::real(a * b);
    case Operator::divide:
      return Value::real(a / b);
    case Operator::floor_divide:
      return Value::real(std::floor(a / b));
    case Operator::modulo:
      return Value::real(floor_modulo(a, b));
    case Operator::power:
      return Value::real(std::pow(a, b));
  }
  return {};
}

Value numbers(Operator op, const Value& a, const Value& b) {
  const bool divides = op == Operator::divide || op == Operator::floor_divide || op == Operator::modulo;
  if ((divides && b.number() == 0) || (op == Operator::power && a.number() == 0 && b.number() < 0)) {
    throw Failure("division by zero");
  }
  if (a.is_integral() && b.is_integral()) return integers(op, a.integral(), b.integral());
  return reals(op, a.number(), b.number());
}

// text * n and list * n. Nothing to repeat or n <= 0 gives an empty one.
Value repeat(const Value& value, std::int64_t n, Heap& heap) {
  const std::size_t times = n > 0 ? static_cast<std::size_t>(n) : 0;
  const std::size_t size = value.is_text() ? value.text().size() : value.sequence()->items.size();
  // Checked before the product is formed: neither it nor the memory may overflow.
  if (size > 0 && times > (std::size_t{1} << 32) / size) throw Failure("a repetition is too large");
  heap.budget().memory(size * times * (value.is_text() ? 1 : sizeof(Value)));
  if (value.is_text()) {
    std::string out;
    out.reserve(size * times);
    for (std::size_t i = 0; size > 0 && i < times; ++i) out += value.text();
    return heap.text(std::move(out));
  }
  std::vector<Value> items;
  const std::vector<Value>& unit = value.sequence()->items;
  for (std::size_t i = 0; size > 0 && i < times; ++i) items.insert(items.end(), unit.begin(), unit.end());
  return Value::of(heap.sequence(value.sequence()->kind, std::move(items)));
}

bool is_repeatable(const Value& value) {
  const Sequence* s = value.sequence();
  return value.is_text() || (s && (s->kind == Sequence::Kind::list || s->kind == Sequence::Kind::tuple));
}

bool are_concatenable(const Value& a, const Value& b) {
  const Sequence* x = a.sequence();
  const Sequence* y = b.sequence();
  return x && y && x->kind == y->kind && is_repeatable(a);
}

}  // namespace

Value arithmetic(Operator op, const Value& a, const Value& b, Heap& heap) {
  if (op == Operator::modulo && a.is_text()) return format_percent(a.text(), b, heap);
  if (a.is_undefined()) fail_undefined(a);
  if (b.is_undefined()) fail_undefined(b);
  if (a.is_number() && b.is_number()) return numbers(op, a, b);
  if (op == Operator::add && a.is_text() && b.is_text()) {
    heap.budget().memory(a.text().size() + b.text().size());
    return heap.text(a.text() + b.text());
  }
  if (op == Operator::add && are_concatenable(a, b)) {
    heap.budget().memory((a.sequence()->items.size() + b.sequence()->items.size()) * sizeof(Value));
    std::vector<Value> items = a.sequence()->items;
    items.insert(items.end(), b.sequence()->items.begin(), b.sequence()->items.end());
    return Value::of(heap.sequence(a.sequence()->kind, std::move(items)));
  }
  if (op == Operator::multiply && is_repeatable(a) && b.is_integral()) return repeat(a, b.integral(), heap);
  if (op == Operator::multiply && is_repeatable(b) && a.is_integral()) return repeat(b, a.integral(), heap);
  if (op == Operator::add && a.is_text()) {
    throw Failure("can only concatenate str (not \"" + b.type_name() + "\") to str");
  }
  throw Failure(std::string("unsupported operand type(s) for ") + symbol(op) + ": '" + a.type_name() +
                "' and '" + b.type_name() + "'");
}

Value negate(const Value& value) {
  if (value.is_undefined()) fail_undefined(value);
  if (value.is_integral()) return integers(Operator::subtract, 0, value.integral());
  if (value.is_real()) return Value::real(-value.number());
  throw Failure("bad operand type for unary -: '" + value.type_name() + "'");
}

}  // namespace hearth::jinja
