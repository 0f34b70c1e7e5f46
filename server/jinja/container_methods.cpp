// Methods of dicts, lists and the loop variable.
#include <algorithm>

#include "server/jinja/builtins.h"
#include "server/jinja/evaluator.h"
#include "server/jinja/operators.h"
#include "server/jinja/text_format.h"

namespace hearth::jinja {
namespace {

Value view(Evaluator& e, const char* label, std::vector<Value> items) {
  Sequence* s = e.heap().sequence(Sequence::Kind::view, std::move(items));
  s->label = label;
  return Value::of(s);
}

Value dict_get(Evaluator& e, const Value& self, const Args& args) {
  const Params p("get", args, {"key", "default"}, 1);
  if (p[0]->is_text()) e.budget().text(p[0]->text().size());
  const Value* found = self.dict()->find(*p[0]);
  if (found) return *found;
  return p[1] ? *p[1] : Value::none();
}

Value dict_keys(Evaluator& e, const Value& self, const Args& args) {
  const Params none("keys", args, {});
  return view(e, "dict_keys", iterate(self, e.heap()));
}

Value dict_values(Evaluator& e, const Value& self, const Args& args) {
  const Params none("values", args, {});
  std::vector<Value> values;
  for (const auto& [key, value] : self.dict()->entries) values.push_back(value);
  return view(e, "dict_values", std::move(values));
}

Value dict_items(Evaluator& e, const Value& self, const Args& args) {
  const Params none("items", args, {});
  std::vector<Value> pairs;
  for (const auto& [key, value] : self.dict()->entries) pairs.push_back(e.heap().tuple({key, value}));
  return view(e, "dict_items", std::move(pairs));
}

Value dict_pop(Evaluator& e, const Value& self, const Args& args) {
  const Params p("pop", args, {"key", "default"}, 1);
  e.budget().steps(4 * self.dict()->entries.size());  // every later position moves, in the hash table's order
  const Value* found = self.dict()->find(*p[0]);
  if (!found && !p[1]) throw Failure("pop: no key " + repr(*p[0], e.budget()));
  const Value value = found ? *found : *p[1];
  self.dict()->erase(*p[0]);
  return value;
}

Value dict_update(Evaluator& e, const Value& self, const Args& args) {
  if (args.positional.size() > 1) throw Failure("update takes at most one positional argument");
  if (!args.positional.empty()) {
    const Dict* other = args.positional[0].dict();
    if (!other) throw Failure("update needs a mapping, not " + args.positional[0].type_name());
    if (other != self.dict()) {
      for (const auto& [key, value] : other->entries) e.heap().set(*self.dict(), key, value);
    }
  }
  for (const auto& [name, value] : args.named)
    e.heap().set(*self.dict(), e.heap().text(std::string(name)), value);
  return Value::none();
}

Value dict_setdefault(Evaluator& e, const Value& self, const Args& args) {
  const Params p("setdefault", args, {"key", "default"}, 1);
  if (const Value* found = self.dict()->find(*p[0])) return *found;
  const Value value = p[1] ? *p[1] : Value::none();
  e.heap().set(*self.dict(), *p[0], value);
  return value;
}

Value dict_copy(Evaluator& e, const Value& self, const Args& args) {
  const Params none("copy", args, {});
  Dict* copy = e.heap().dict();
  for (const auto& [key, value] : self.dict()->entries) e.heap().set(*copy, key, value);
  return Value::of(copy);
}

// The list a method may change; tuples and ranges may not be.
Sequence& changeable(const char* method, const Value& self) {
  if (self.sequence()->kind != Sequence::Kind::list) {
    throw Failure("'" + self.type_name() + " object' has no attribute '" + method + "'");
  }
  return *self.sequence();
}

Value list_append(Evaluator& e, const Value& self, const Args& args) {
  const Params p("append", args, {"object"}, 1);
  e.heap().append(changeable("append", self), *p[0]);
  return Value::none();
}

Value list_extend(Evaluator& e, const Value& self, const Args& args) {
  const Params p("extend", args, {"iterable"}, 1);
  Sequence& list = changeable("extend", self);
  for (const Value& item : iterate(*p[0], e.heap())) e.heap().append(list, item);
  return Value::none();
}

Value list_insert(Evaluator& e, const Value& self, const Args& args) {
  const Params p("insert", args, {"index", "object"}, 2);
  Sequence& list = changeable("insert", self);
  const std::int64_t size = static_cast<std::int64_t>(list.items.size());
  const std::int64_t index = p.integer(0, 0);
  const std::int64_t at =
      std::clamp<std::int64_t>(index < 0 ? std::max(index, -size) + size : index, 0, size);
  e.budget().steps(list.items.size() / 8);
  e.budget().memory(2 * sizeof(Value));
  list.items.insert(list.items.begin() + static_cast<std::ptrdiff_t>(at), *p[1]);
  return Value::none();
}

Value list_pop(Evaluator& e, const Value& self, const Args& args) {
  const Params p("pop", args, {"index"});
  Sequence& list = changeable("pop", self);
  const std::int64_t size = static_cast<std::int64_t>(list.items.size());
  const std::int64_t index = p.integer(0, -1);
  if (index < -size || index >= size) throw Failure("pop index out of range");
  const auto at = list.items.begin() + static_cast<std::ptrdiff_t>(index < 0 ? index + size : index);
  const Value value = *at;
  e.budget().steps(list.items.size() / 8);
  list.items.erase(at);
  return value;
}

Value list_index(Evaluator& e, const Value& self, const Args& args) {
  const Params p("index", args, {"value"}, 1);
  const std::vector<Value>& items = self.sequence()->items;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (equal(items[i], *p[0], e.budget())) return Value::integer(static_cast<std::int64_t>(i));
  }
  throw Failure(repr(*p[0], e.budget()) + " is not in list");
}

Value list_count(Evaluator& e, const Value& self, const Args& args) {
  const Params p("count", args, {"value"}, 1);
  const std::vector<Value>& items = self.sequence()->items;
  return Value::integer(
      std::count_if(items.begin(), items.end(), [&](const Value& v) { return equal(v, *p[0], e.budget()); }));
}

Value list_reverse(Evaluator& e, const Value& self, const Args& args) {
  const Params none("reverse", args, {});
  Sequence& list = changeable("reverse", self);
  e.budget().steps(list.items.size());
  std::reverse(list.items.begin(), list.items.end());
  return Value::none();
}

Value list_copy(Evaluator& e, const Value& self, const Args& args) {
  const Params none("copy", args, {});
  return e.heap().list(changeable("copy", self).items);
}

Value loop_cycle(Evaluator&, const Value& self, const Args& args) {
  if (args.positional.empty()) throw Failure("no items for cycling given");
  return args.positional[self.loop()->index0 % args.positional.size()];
}

Value loop_changed(Evaluator& e, const Value& self, const Args& args) {
  Loop& loop = *self.loop();
  const Value now = e.heap().tuple(args.positional);
  if (loop.has_seen && equal(loop.seen, now, e.budget())) return Value::boolean(false);
  loop.has_seen = true;
  loop.seen = now;
  return Value::boolean(true);
}

}  // namespace

const NativeTable& dict_methods() {
  static const NativeTable table = {
      {"get", dict_get}, {"keys", dict_keys},     {"values", dict_values},         {"items", dict_items},
      {"pop", dict_pop}, {"update", dict_update}, {"setdefault", dict_setdefault}, {"copy", dict_copy},
  };
  return table;
}

const NativeTable& list_methods() {
  static const NativeTable table = {
      {"append", list_append}, {"extend", list_extend}, {"insert", list_insert},   {"pop", list_pop},
      {"index", list_index},   {"count", list_count},   {"reverse", list_reverse}, {"copy", list_copy},
  };
  return table;
}

const NativeTable& loop_methods() {
  static const NativeTable table = {{"cycle", loop_cycle}, {"changed", loop_changed}};
  return table;
}

}  // namespace hearth::jinja
