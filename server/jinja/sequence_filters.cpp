// Filters on sequences and dicts as a whole: length, first, last, list, join, reverse, sort, unique,
// dictsort, items, batch, slice, groupby.
#include <algorithm>
#include <unordered_set>

#include "server/jinja/attribute_path.h"
#include "server/jinja/builtins.h"
#include "server/jinja/evaluator.h"
#include "server/jinja/operators.h"
#include "server/jinja/text_format.h"
#include "server/jinja/text_ops.h"

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

// Stable, by key; in reverse equal items keep their order too, as in Python.
std::vector<Value> sorted(Evaluator& e, const std::vector<std::pair<Value, Value>>& by_key, bool descending) {
  std::vector<std::size_t> order(by_key.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (descending) std::swap(a, b);
    return compare(Comparison::less, by_key[a].first, by_key[b].first, e.budget());
  });
  std::vector<Value> items;
  for (const std::size_t i : order) items.push_back(by_key[i].second);
  return items;
}

// "a,b" sorts by a, then b. Without an attribute by the item itself.
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

}  // namespace

const NativeTable& sequence_filters() {
  static const NativeTable table = {
      {"length", length_of}, {"count", length_of},    {"first", first},     {"last", last},
      {"list", list},        {"join", join},          {"reverse", reverse}, {"sort", sort},
      {"unique", unique},    {"dictsort", dict_sort}, {"items", items},     {"batch", batch},
      {"slice", slices},     {"groupby", group_by},
  };
  return table;
}

}  // namespace hearth::jinja
