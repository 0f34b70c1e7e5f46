// Implements truth, equality, order, membership, iteration and indexing; then arithmetic.
#include "server/jinja/operators.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "server/jinja/format.h"
#include "server/jinja/text.h"

namespace hearth::jinja {
namespace {

// Returns -1, 0 or 1, or 2 if the numbers are unordered (NaN).
int order_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) {
    return a.integral() < b.integral() ? -1 : a.integral() > b.integral() ? 1 : 0;
  }
  const double x = a.number();
  const double y = b.number();
  return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
}

bool equal_items(const std::vector<Value>& a, const std::vector<Value>& b, Budget& budget) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!equal(a[i], b[i], budget)) return false;
  }
  return true;
}

bool equal_dicts(const Dict& a, const Dict& b, Budget& budget) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    budget.text(key.is_text() ? key.text().size() : 0);
    const Value* other = b.find(key);
    if (!other || !equal(value, *other, budget)) return false;
  }
  return true;
}

const char* symbol(Comparison op) {
  switch (op) {
    case Comparison::less:
      return "<";
    case Comparison::less_equal:
      return "<=";
    case Comparison::greater:
      return ">";
    default:
      return ">=";
  }
}

bool holds(Comparison op, int order) {
  switch (op) {
    case Comparison::less:
      return order == -1;
    case Comparison::less_equal:
      return order == -1 || order == 0;
    case Comparison::greater:
      return order == 1;
    default:
      return order == 1 || order == 0;
  }
}

bool are_ordered_sequences(const Sequence* a, const Sequence* b) {
  return a && b && a->kind == b->kind &&
         (a->kind == Sequence::Kind::list || a->kind == Sequence::Kind::tuple);
}

bool ordered(Comparison op, const Value& a, const Value& b, Budget& budget) {
  const Level level(budget);
  budget.steps(1);
  if (a.is_undefined()) fail_undefined(a);
  if (b.is_undefined()) fail_undefined(b);
  if (a.is_number() && b.is_number()) return holds(op, order_numbers(a, b));
  if (a.is_text() && b.is_text()) {
    budget.text(std::min(a.text().size(), b.text().size()));
    const int order = a.text().compare(b.text());  // UTF-8 bytes have the same order as code points
    return holds(op, order < 0 ? -1 : order > 0 ? 1 : 0);
  }
  const Sequence* x = a.sequence();
  const Sequence* y = b.sequence();
  if (!are_ordered_sequences(x, y)) {
    throw Failure(std::string("'") + symbol(op) + "' not supported between instances of '" + a.type_name() +
                  "' and '" + b.type_name() + "'");
  }
  const std::size_t n = std::min(x->items.size(), y->items.size());
  for (std::size_t i = 0; i < n; ++i) {
    if (!equal(x->items[i], y->items[i], budget)) return ordered(op, x->items[i], y->items[i], budget);
  }
  return holds(op, x->items.size() < y->items.size() ? -1 : x->items.size() > y->items.size() ? 1 : 0);
}

std::vector<Value> characters(const std::string& text, Heap& heap) {
  std::vector<Value> items;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t start = at;
    next_code_point(text, at);
    items.push_back(heap.text(text.substr(start, at - start)));
  }
  return items;
}

// Converts an index of Python to a position. A negative index counts from the end. Returns nullopt if the
// index is out of range.
std::optional<std::size_t> position(std::int64_t index, std::size_t n) {
  const std::int64_t size = static_cast<std::int64_t>(n);
  if (index < -size || index >= size) return std::nullopt;
  return static_cast<std::size_t>(index < 0 ? index + size : index);
}

std::optional<std::int64_t> slice_bound(const Value& bound) {
  if (bound.is_none() || bound.is_undefined()) return std::nullopt;
  if (!bound.is_integral()) throw Failure("slice indices must be integers or None, not " + bound.type_name());
  return bound.integral();
}

// The positions that a slice selects: first, first + stride, ..., `count` in total.
struct Selection {
  std::int64_t first, count, stride;
};

// Computes the positions as Python's PySlice_AdjustIndices does.
Selection select(std::size_t n, const Value& start, const Value& stop, const Value& step) {
  const std::int64_t size = static_cast<std::int64_t>(n);
  const std::int64_t by = slice_bound(step).value_or(1);
  if (by == 0) throw Failure("slice step cannot be zero");
  const std::int64_t lowest = by < 0 ? -1 : 0;
  const std::int64_t highest = by < 0 ? size - 1 : size;
  const auto adjust = [&](const Value& bound, std::int64_t otherwise) {
    const std::optional<std::int64_t> given = slice_bound(bound);
    if (!given) return otherwise;
    return std::clamp(*given < 0 ? std::max(*given, -size - 1) + size : *given, lowest, highest);
  };
  const std::int64_t first = adjust(start, by < 0 ? highest : lowest);
  const std::int64_t last = adjust(stop, by < 0 ? lowest : highest);
  // The clamp keeps sums with the stride from overflowing. It does not change the result, because a stride
  // beyond the size selects one element.
  const std::int64_t stride = std::clamp(by, -size - 1, size + 1);
  const std::int64_t distance = by < 0 ? first - last : last - first;
  const std::int64_t count = distance > 0 ? (distance - 1) / std::abs(stride) + 1 : 0;
  return {first, count, stride};
}

Value slice_text(const std::string& text, const Value& start, const Value& stop, const Value& step,
                 Heap& heap) {
  heap.budget().text(text.size());
  const Selection selection = select(count_code_points(text), start, stop, step);
  if (selection.stride == 1) {
    const std::string_view rest =
        std::string_view(text).substr(byte_offset(text, static_cast<std::size_t>(selection.first)));
    return heap.text(
        std::string(rest.substr(0, byte_offset(rest, static_cast<std::size_t>(selection.count)))));
  }
  std::vector<std::size_t> offsets;  // byte offsets of all code points, then the offset of the end
  heap.budget().memory(text.size() * sizeof(std::size_t));
  for (std::size_t at = 0; at < text.size();) {
    offsets.push_back(at);
    next_code_point(text, at);
  }
  offsets.push_back(text.size());
  std::string out;
  for (std::int64_t k = 0; k < selection.count; ++k) {
    const std::size_t i = static_cast<std::size_t>(selection.first + k * selection.stride);
    out.append(text, offsets[i], offsets[i + 1] - offsets[i]);
  }
  return heap.text(std::move(out));
}

}  // namespace

void fail_undefined(const Value& value) {
  const std::string* why = value.why_undefined();
  throw Failure(why ? *why : "a value is undefined");
}

bool truthy(const Value& value) {
  if (value.is_bool()) return value.boolean();
  if (value.is_none() || value.is_undefined()) return false;
  if (value.is_number()) return value.number() != 0;
  if (value.is_text()) return !value.text().empty();
  if (const Dict* dict = value.dict()) return !dict->entries.empty();
  if (const Sequence* s = value.sequence()) return s->kind == Sequence::Kind::generator || !s->items.empty();
  return true;
}

bool equal(const Value& a, const Value& b, Budget& budget) {
  const Level level(budget);
  budget.steps(1);
  if (a.is_number() && b.is_number()) return order_numbers(a, b) == 0;
  if (a.is_text() && b.is_text()) {
    if (a.text().size() != b.text().size()) return false;
    budget.text(a.text().size());
    return a.text() == b.text();
  }
  if (a.is_undefined() || b.is_undefined()) return a.is_undefined() && b.is_undefined();
  if (a.dict() && b.dict()) return a.dict() == b.dict() || equal_dicts(*a.dict(), *b.dict(), budget);
  const Sequence* x = a.sequence();
  const Sequence* y = b.sequence();
  if (x && y && x != y && x->kind == y->kind && x->kind != Sequence::Kind::generator) {
    return equal_items(x->items, y->items, budget);
  }
  return same(a, b);
}

bool same(const Value& a, const Value& b) {
  if (a.is_none() || b.is_none()) return a.is_none() && b.is_none();
  if (a.is_bool() || b.is_bool()) return a.is_bool() && b.is_bool() && a.boolean() == b.boolean();
  if (a.is_int() && b.is_int()) return a.integral() == b.integral();
  if (a.is_text() && b.is_text()) {
    // Python keeps one copy of short literals. Long texts are identical only if they are one object.
    return &a.text() == &b.text() || (a.text().size() < 64 && a.text() == b.text());
  }
  if (a.sequence()) return a.sequence() == b.sequence();
  if (a.dict()) return a.dict() == b.dict();
  if (a.name_space()) return a.name_space() == b.name_space();
  if (a.callable()) return a.callable() == b.callable();
  return a.loop() && a.loop() == b.loop();
}

bool compare(Comparison op, const Value& a, const Value& b, Budget& budget) {
  switch (op) {
    case Comparison::equal:
      return equal(a, b, budget);
    case Comparison::not_equal:
      return !equal(a, b, budget);
    case Comparison::in:
      return contains(b, a, budget);
    case Comparison::not_in:
      return !contains(b, a, budget);
    default:
      return ordered(op, a, b, budget);
  }
}

bool contains(const Value& container, const Value& item, Budget& budget) {
  if (container.is_undefined()) return false;
  if (container.is_text()) {
    if (!item.is_text()) {
      throw Failure("'in <string>' requires string as left operand, not " + item.type_name());
    }
    budget.text(container.text().size());
    return find_text(container.text(), item.text(), 0) != std::string::npos;
  }
  if (const Dict* dict = container.dict()) {
    budget.text(item.is_text() ? item.text().size() : 0);
    return dict->find(item) != nullptr;
  }
  if (const Sequence* s = container.sequence()) {
    return std::any_of(s->items.begin(), s->items.end(),
                       [&](const Value& v) { return equal(v, item, budget); });
  }
  throw Failure("argument of type '" + container.type_name() + "' is not iterable");
}

std::size_t length(const Value& value, Budget& budget) {
  if (value.is_undefined()) return 0;
  if (value.is_text()) {
    budget.text(value.text().size());
    return count_code_points(value.text());
  }
  if (const Dict* dict = value.dict()) return dict->entries.size();
  if (const Loop* loop = value.loop()) return loop->items->items.size();
  const Sequence* s = value.sequence();
  if (!s || s->kind == Sequence::Kind::generator) {
    throw Failure("object of type '" + value.type_name() + "' has no len()");
  }
  return s->items.size();
}

bool is_iterable(const Value& value) {
  return value.is_undefined() || value.is_text() || value.dict() || value.sequence() || value.loop();
}

std::vector<Value> iterate(const Value& value, Heap& heap) {
  if (value.is_undefined()) return {};
  if (value.is_text()) return characters(value.text(), heap);
  if (const Dict* dict = value.dict()) {
    heap.budget().memory(dict->entries.size() * sizeof(Value));
    std::vector<Value> keys;
    for (const auto& [key, held] : dict->entries) keys.push_back(key);
    return keys;
  }
  if (Sequence* s = value.sequence()) {
    heap.budget().memory(s->items.size() * sizeof(Value));
    heap.budget().steps(s->items.size());
    if (s->kind == Sequence::Kind::generator) return std::exchange(s->items, {});
    return s->items;
  }
  throw Failure("'" + value.type_name() + "' object is not iterable");
}

std::optional<Value> element(const Value& value, const Value& key, Heap& heap) {
  if (value.is_undefined()) fail_undefined(value);
  if (const Dict* dict = value.dict()) {
    if (key.dict() || (key.sequence() && key.sequence()->kind != Sequence::Kind::tuple)) return std::nullopt;
    heap.budget().text(key.is_text() ? key.text().size() : 0);
    const Value* found = dict->find(key);
    return found ? std::optional<Value>(*found) : std::nullopt;
  }
  if (!key.is_integral()) return std::nullopt;
  if (value.is_text()) {
    const std::string& text = value.text();
    heap.budget().text(text.size());
    const std::optional<std::size_t> at = position(key.integral(), count_code_points(text));
    if (!at) return std::nullopt;
    const std::size_t start = byte_offset(text, *at);
    std::size_t end = start;
    next_code_point(text, end);
    return heap.text(text.substr(start, end - start));
  }
  const Sequence* s = value.sequence();
  if (!s || !s->indexable()) return std::nullopt;
  const std::optional<std::size_t> at = position(key.integral(), s->items.size());
  return at ? std::optional<Value>(s->items[*at]) : std::nullopt;
}

Value slice(const Value& value, const Value& start, const Value& stop, const Value& step, Heap& heap) {
  if (value.is_undefined()) fail_undefined(value);
  if (value.is_text()) return slice_text(value.text(), start, stop, step, heap);
  const Sequence* s = value.sequence();
  // As in Jinja, slicing a value that cannot be sliced gives an undefined value, not an error.
  if (!s || !s->indexable())
    return heap.undefined("a value of type '" + value.type_name() + "' cannot be sliced");
  std::vector<Value> items;
  const Selection selection = select(s->items.size(), start, stop, step);
  heap.budget().memory(static_cast<std::size_t>(selection.count) * sizeof(Value));
  for (std::int64_t k = 0; k < selection.count; ++k) {
    items.push_back(s->items[static_cast<std::size_t>(selection.first + k * selection.stride)]);
  }
  return Value::of(
      heap.sequence(s->kind == Sequence::Kind::range ? Sequence::Kind::list : s->kind, std::move(items)));
}

// Arithmetic with Python's rules: floor division, division with a float result, concatenation and repetition
// of text and lists, printf-style % on text.

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

// REQUIRES: b >= 0.
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

// Implements text * n and list * n. Empty if n <= 0.
Value repeat(const Value& value, std::int64_t n, Heap& heap) {
  const std::size_t times = n > 0 ? static_cast<std::size_t>(n) : 0;
  const std::size_t size = value.is_text() ? value.text().size() : value.sequence()->items.size();
  // The size is checked before the multiplication, so that neither the product nor the memory can overflow.
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
