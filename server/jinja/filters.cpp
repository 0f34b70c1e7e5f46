// All filters except those on text (text_filters.cpp):
// - for whole sequences and dicts: length, first, last, list, join, reverse, sort, unique, dictsort, items,
//   batch, slice, groupby;
// - for each item of a sequence: map, select, reject, selectattr, rejectattr;
// - default and attr;
// - for numbers, and for reducing a sequence to one value: int, float, abs, round, sum, min, max.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>
#include <unordered_set>

#include "server/jinja/builtins.h"
#include "server/jinja/evaluator.h"
#include "server/jinja/format.h"
#include "server/jinja/operators.h"
#include "server/jinja/text.h"

namespace hearth::jinja {
namespace {

Value length_of(Evaluator& e, const Value& self, const Args& args) {
  const Params none("length", args, {});
  return Value::integer(static_cast<std::int64_t>(length(self, e.budget())));
}

Value first(Evaluator& e, const Value& self, const Args& args) {
  const Params none("first", args, {});
  const std::vector<Value> items = iterate(self, e.heap());
  return items.empty() ? e.heap().undefined("No first item, sequence was empty.") : items.front();
}

Value last(Evaluator& e, const Value& self, const Args& args) {
  const Params none("last", args, {});
  if (self.sequence() && self.sequence()->kind == Sequence::Kind::generator) {
    throw Failure("'generator' object is not reversible; put |list before |last");
  }
  const std::vector<Value> items = iterate(self, e.heap());
  return items.empty() ? e.heap().undefined("No last item, sequence was empty.") : items.back();
}

Value list(Evaluator& e, const Value& self, const Args& args) {
  const Params none("list", args, {});
  return e.heap().list(iterate(self, e.heap()));
}

Value join(Evaluator& e, const Value& self, const Args& args) {
  const Params p("join", args, {"d", "attribute"});
  const std::string separator = p[0] ? to_text(*p[0], e.budget()) : "";
  const Value* attribute = attribute_param(p, 1);
  std::string out;
  bool is_first = true;
  for (const Value& value : iterate(self, e.heap())) {
    const std::string piece = to_text(follow(e, value, attribute), e.budget());
    e.budget().memory(piece.size() + separator.size());
    if (!std::exchange(is_first, false)) out += separator;
    out += piece;
  }
  return e.heap().text(std::move(out));
}

Value reverse(Evaluator& e, const Value& self, const Args& args) {
  const Params none("reverse", args, {});
  if (self.is_text()) return slice(self, Value::none(), Value::none(), Value::integer(-1), e.heap());
  if (self.is_undefined()) fail_undefined(self);
  std::vector<Value> items = iterate(self, e.heap());
  std::reverse(items.begin(), items.end());
  return e.heap().generator(std::move(items));
}

// Sorts pairs by their first values and returns their second values. The sort is stable even if it is
// descending, as in Python.
std::vector<Value> sorted(Evaluator& e, const std::vector<std::pair<Value, Value>>& by_key, bool descending) {
  std::vector<std::size_t> order(by_key.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (descending) std::swap(a, b);
    return compare(Comparison::less, by_key[a].first, by_key[b].first, e.budget());
  });
  std::vector<Value> items;
  items.reserve(order.size());
  for (const std::size_t i : order) items.push_back(by_key[i].second);
  return items;
}

// Returns the key by which an item is sorted. Without an attribute, this is the item itself. The attribute
// "a,b" sorts by a, then by b.
Value sort_key(Evaluator& e, const Value& item, const Value* attribute, bool case_sensitive) {
  if (!attribute || !attribute->is_text() || attribute->text().find(',') == std::string::npos) {
    return fold_case(e, follow(e, item, attribute), case_sensitive);
  }
  std::vector<Value> keys;
  for (const std::string_view part : split_at(attribute->text(), ",", -1)) {
    const Value name = e.heap().text(std::string(part));
    keys.push_back(fold_case(e, follow(e, item, &name), case_sensitive));
  }
  return e.heap().tuple(std::move(keys));
}

Value sort(Evaluator& e, const Value& self, const Args& args) {
  const Params p("sort", args, {"reverse", "case_sensitive", "attribute"});
  const Value* attribute = attribute_param(p, 2);
  std::vector<std::pair<Value, Value>> by_key;
  for (const Value& item : iterate(self, e.heap())) {
    by_key.emplace_back(sort_key(e, item, attribute, p.flag(1, false)), item);
  }
  return e.heap().list(sorted(e, by_key, p.flag(0, false)));
}

Value unique(Evaluator& e, const Value& self, const Args& args) {
  const Params p("unique", args, {"case_sensitive", "attribute"});
  const Value* attribute = attribute_param(p, 1);
  std::unordered_set<std::string> seen;
  std::vector<Value> items;
  for (const Value& item : iterate(self, e.heap())) {
    const std::string key = hash_key(fold_case(e, follow(e, item, attribute), p.flag(0, false)));
    e.budget().memory(key.size());
    if (seen.insert(key).second) items.push_back(item);
  }
  return e.heap().generator(std::move(items));
}

const Dict& require_dict(const char* filter, const Value& self) {
  if (self.is_undefined()) fail_undefined(self);
  if (!self.dict()) throw Failure(std::string(filter) + " needs a mapping, not " + self.type_name());
  return *self.dict();
}

Value dict_sort(Evaluator& e, const Value& self, const Args& args) {
  const Params p("dictsort", args, {"case_sensitive", "by", "reverse"});
  static const std::string kKey = "key";
  const std::string& by = p.text(1, kKey);
  if (by != "key" && by != "value") throw Failure("dictsort: by must be 'key' or 'value'");
  std::vector<std::pair<Value, Value>> by_key;
  for (const auto& [key, value] : require_dict("dictsort", self).entries) {
    const Value& sorts = by == "key" ? key : value;
    by_key.emplace_back(fold_case(e, sorts, p.flag(0, false)), e.heap().tuple({key, value}));
  }
  return e.heap().list(sorted(e, by_key, p.flag(2, false)));
}

Value items(Evaluator& e, const Value& self, const Args& args) {
  const Params none("items", args, {});
  std::vector<Value> pairs;
  if (self.is_undefined()) return e.heap().generator({});
  if (!self.dict()) throw Failure("Can only get item pairs from a mapping.");
  for (const auto& [key, value] : self.dict()->entries) pairs.push_back(e.heap().tuple({key, value}));
  return e.heap().generator(std::move(pairs));
}

std::size_t positive(const Params& p, const char* what) {
  const std::int64_t n = p.integer(0, 0);
  if (n < 1 || n > 1'000'000) throw Failure(std::string(what) + " must be from 1 to 1000000");
  return static_cast<std::size_t>(n);
}

Value batch(Evaluator& e, const Value& self, const Args& args) {
  const Params p("batch", args, {"linecount", "fill_with"}, 1);
  const std::size_t size = positive(p, "batch: linecount");
  std::vector<Value> batches;
  std::vector<Value> current;
  for (const Value& value : iterate(self, e.heap())) {
    if (current.size() == size) batches.push_back(e.heap().list(std::exchange(current, {})));
    current.push_back(value);
  }
  if (!current.empty()) {
    if (p.given(1)) {
      e.budget().memory(size * sizeof(Value));
      current.resize(size, *p[1]);
    }
    batches.push_back(e.heap().list(std::move(current)));
  }
  return e.heap().generator(std::move(batches));
}

Value slices(Evaluator& e, const Value& self, const Args& args) {
  const Params p("slice", args, {"slices", "fill_with"}, 1);
  const std::size_t n = positive(p, "slice: slices");
  const std::vector<Value> all = iterate(self, e.heap());
  std::vector<Value> columns;
  std::size_t start = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const bool has_extra = i < all.size() % n;
    const std::size_t end = start + all.size() / n + (has_extra ? 1 : 0);
    std::vector<Value> column(all.begin() + static_cast<std::ptrdiff_t>(start),
                              all.begin() + static_cast<std::ptrdiff_t>(end));
    if (p.given(1) && !has_extra) column.push_back(*p[1]);
    columns.push_back(e.heap().list(std::move(column)));
    start = end;
  }
  return e.heap().generator(std::move(columns));
}

Value group_by(Evaluator& e, const Value& self, const Args& args) {
  const Params p("groupby", args, {"attribute", "default", "case_sensitive"}, 1);
  const Value* attribute = attribute_param(p, 0);
  const bool case_sensitive = p.flag(2, false);
  std::vector<std::pair<Value, Value>> by_key;
  for (const Value& item : iterate(self, e.heap())) {
    by_key.emplace_back(fold_case(e, follow(e, item, attribute, p.given(1)), case_sensitive), item);
  }
  std::vector<Value> groups;
  Value open_key;
  Sequence* open = nullptr;
  for (const Value& item : sorted(e, by_key, false)) {
    const Value original = follow(e, item, attribute, p.given(1));
    const Value key = fold_case(e, original, case_sensitive);
    if (!open || !equal(key, open_key, e.budget())) {
      open = e.heap().sequence(Sequence::Kind::list);
      open_key = key;
      groups.push_back(e.heap().tuple({original, Value::of(open)}));
    }
    e.heap().append(*open, item);
  }
  return e.heap().list(std::move(groups));
}

// The filters default and attr, then filters that apply a filter or a test to each item.

Value or_default(Evaluator& e, const Value& self, const Args& args) {
  const Params p("default", args, {"default_value", "boolean"});
  const bool is_missing = self.is_undefined() || (p.flag(1, false) && !truthy(self));
  if (!is_missing) return self;
  return p[0] ? *p[0] : e.heap().text("");
}

Value attr(Evaluator& e, const Value& self, const Args& args) {
  const Params p("attr", args, {"name"}, 1);
  return e.attribute(self, p.text(0, ""));
}

// Returns argument `i`, the name of the filter or test to apply.
const std::string& applied_name(const char* filter, const Args& args, std::size_t i) {
  if (!args.positional[i].is_text())
    throw Failure(std::string(filter) + ": the name to apply must be a string");
  return args.positional[i].text();
}

Args without_first(const Args& args, std::size_t n) {
  Args rest;
  rest.positional.assign(args.positional.begin() + static_cast<std::ptrdiff_t>(n), args.positional.end());
  rest.named = args.named;
  return rest;
}

Value map(Evaluator& e, const Value& self, const Args& args) {
  std::vector<Value> mapped;
  const Value* attribute = args.find("attribute");
  if (args.positional.empty() && attribute) {
    const Value* otherwise = args.find("default");
    for (const Value& item : iterate(self, e.heap())) mapped.push_back(follow(e, item, attribute, otherwise));
    return e.heap().generator(std::move(mapped));
  }
  if (args.positional.empty()) throw Failure("map requires a filter argument");
  const std::string& name = applied_name("map", args, 0);
  const Args rest = without_first(args, 1);
  for (const Value& item : iterate(self, e.heap())) mapped.push_back(e.apply_filter(name, item, rest));
  return e.heap().generator(std::move(mapped));
}

// Returns the items for which the test returns `wanted`. If by_attribute is true, the first argument names an
// attribute, and the test is applied to the attribute's value instead of the item. Without a test, compares
// the truth of this value with `wanted`.
Value pick(Evaluator& e, const Value& self, const Args& args, bool by_attribute, bool wanted) {
  const std::size_t n_attribute = by_attribute ? 1 : 0;
  if (args.positional.size() < n_attribute) throw Failure("Missing parameter for attribute name");
  const Value* attribute = by_attribute ? &args.positional[0] : nullptr;
  const bool has_test = args.positional.size() > n_attribute;
  const std::string name = has_test ? applied_name("select", args, n_attribute) : "";
  const Args rest = has_test ? without_first(args, n_attribute + 1) : Args{};
  std::vector<Value> picked;
  if (!truthy(self)) return e.heap().generator({});
  for (const Value& item : iterate(self, e.heap())) {
    const Value tested = follow(e, item, attribute);
    if ((has_test ? e.apply_test(name, tested, rest) : truthy(tested)) == wanted) picked.push_back(item);
  }
  return e.heap().generator(std::move(picked));
}

template <bool ByAttribute, bool Wanted>
Value pick_as(Evaluator& e, const Value& self, const Args& args) {
  return pick(e, self, args, ByAttribute, Wanted);
}

// Filters for numbers, and filters that reduce a sequence to one value.

// Removes the parts of a number's text that Python's int() and float() ignore: surrounding white space,
// underscores between digits, and a plus sign.
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

// Converts like Python's int(d). Returns nullopt if the result does not fit into 64 bits.
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

// Implements Python's round(). An exact half is rounded to the even digit.
double rounded(double value, int precision) {
  if (!std::isfinite(value)) return value;
  if (precision < 0) {
    const double scale = std::pow(10.0, -precision);
    return std::nearbyint(value / scale) * scale;
  }
  std::array<char, 400> buffer{};  // up to 309 digits, the point and up to 60 decimals
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

const NativeTable& filters() {
  static const NativeTable table = {
      {"length", length_of},
      {"count", length_of},
      {"first", first},
      {"last", last},
      {"list", list},
      {"join", join},
      {"reverse", reverse},
      {"sort", sort},
      {"unique", unique},
      {"dictsort", dict_sort},
      {"items", items},
      {"batch", batch},
      {"slice", slices},
      {"groupby", group_by},
      {"default", or_default},
      {"d", or_default},
      {"attr", attr},
      {"map", map},
      {"select", pick_as<false, true>},
      {"reject", pick_as<false, false>},
      {"selectattr", pick_as<true, true>},
      {"rejectattr", pick_as<true, false>},
      {"int", to_int},
      {"float", to_float},
      {"abs", absolute},
      {"round", round},
      {"sum", sum},
      {"min", minimum},
      {"max", maximum},
  };
  return table;
}

}  // namespace hearth::jinja
