// Methods of strings, dicts, lists and the loop variable.
#include <algorithm>

#include "server/jinja/builtins.h"
#include "server/jinja/evaluator.h"
#include "server/jinja/format.h"
#include "server/jinja/operators.h"
#include "server/jinja/text.h"

namespace hearth::jinja {
namespace {

// Methods of strings.

template <std::string (*Map)(std::string_view)>
Value text_mapped(Evaluator& e, const Value& self, const Args& args) {
  const Params none("this method", args, {});
  return e.heap().text(Map(self.text()));
}

template <Side Where>
Value strip_at(Evaluator& e, const Value& self, const Args& args) {
  const Params p("strip", args, {"chars"});
  if (!p.given(0)) return e.heap().text(std::string(strip(self.text(), Where)));
  const std::string& chars = p.text(0, "");
  e.budget().steps(self.text().size() * (1 + chars.size() / 8));
  return e.heap().text(std::string(strip(self.text(), Where, chars)));
}

bool matches(const std::string& text, const std::string& part, bool at_end) {
  const std::string_view view = text;
  return at_end ? view.ends_with(part) : view.starts_with(part);
}

template <bool AtEnd>
Value starts_or_ends(Evaluator& e, const Value& self, const Args& args) {
  const Params p(AtEnd ? "endswith" : "startswith", args, {"part"}, 1);
  const Sequence* parts = p[0]->sequence();
  if (!parts || parts->kind != Sequence::Kind::tuple) {
    e.budget().text(p.text(0, "").size());
    return Value::boolean(matches(self.text(), p.text(0, ""), AtEnd));
  }
  for (const Value& part : parts->items) {
    if (!part.is_text()) throw Failure("startswith and endswith need strings, not " + part.type_name());
    e.budget().text(part.text().size());
    if (matches(self.text(), part.text(), AtEnd)) return Value::boolean(true);
  }
  return Value::boolean(false);
}

Value text_replace(Evaluator& e, const Value& self, const Args& args) {
  const Params p("replace", args, {"old", "new", "count"}, 2);
  return e.heap().text(replace_all(self.text(), p.text(0, ""), p.text(1, ""), p.integer(2, -1), e.budget()));
}

template <bool Forward>
std::int64_t search(Evaluator& e, const Value& self, const Args& args) {
  const Params p("find", args, {"sub"}, 1);
  e.budget().text(self.text().size());
  const std::string& sub = p.text(0, "");
  const std::size_t at = Forward ? find_text(self.text(), sub, 0) : find_last_text(self.text(), sub);
  if (at == std::string::npos) return -1;
  return static_cast<std::int64_t>(count_code_points(std::string_view(self.text()).substr(0, at)));
}

template <bool Forward>
Value find(Evaluator& e, const Value& self, const Args& args) {
  return Value::integer(search<Forward>(e, self, args));
}

Value index(Evaluator& e, const Value& self, const Args& args) {
  const std::int64_t at = search<true>(e, self, args);
  if (at < 0) throw Failure("substring not found");
  return Value::integer(at);
}

Value count(Evaluator& e, const Value& self, const Args& args) {
  const Params p("count", args, {"sub"}, 1);
  const std::string& sub = p.text(0, "");
  e.budget().text(self.text().size());
  if (sub.empty()) return Value::integer(static_cast<std::int64_t>(count_code_points(self.text())) + 1);
  std::int64_t n = 0;
  for (std::size_t at = 0; (at = find_text(self.text(), sub, at)) != std::string::npos; at += sub.size()) ++n;
  return Value::integer(n);
}

Value text_join(Evaluator& e, const Value& self, const Args& args) {
  const Params p("join", args, {"iterable"}, 1);
  std::string out;
  bool is_first = true;
  for (const Value& piece : iterate(*p[0], e.heap())) {
    if (!piece.is_text()) throw Failure("join: expected str, found " + piece.type_name());
    e.budget().memory(piece.text().size() + self.text().size());
    if (!std::exchange(is_first, false)) out += self.text();
    out += piece.text();
  }
  return e.heap().text(std::move(out));
}

Value text_format(Evaluator& e, const Value& self, const Args& args) {
  return format_braces(self.text(), args, e.heap());
}

template <bool AtEnd>
Value remove_part(Evaluator& e, const Value& self, const Args& args) {
  const Params p(AtEnd ? "removesuffix" : "removeprefix", args, {"part"}, 1);
  const std::string& part = p.text(0, "");
  if (!matches(self.text(), part, AtEnd)) return self;
  const std::size_t rest = self.text().size() - part.size();
  return e.heap().text(AtEnd ? self.text().substr(0, rest) : self.text().substr(part.size()));
}

bool is_digit(char32_t c) { return c >= '0' && c <= '9'; }
bool is_letter(char32_t c) { return is_cased(c) || (c > 0xFF && !is_space(c) && is_printable(c)); }
bool is_letter_or_digit(char32_t c) { return is_digit(c) || is_letter(c); }

// Whether the text is not empty and Such() is true for each of its characters.
template <bool (*Such)(char32_t)>
Value all_are(Evaluator& e, const Value& self, const Args& args) {
  const Params none("this method", args, {});
  e.budget().text(self.text().size());
  for (std::size_t at = 0; at < self.text().size();) {
    if (!Such(next_code_point(self.text(), at))) return Value::boolean(false);
  }
  return Value::boolean(!self.text().empty());
}

template <bool Upper>
Value text_has_case(Evaluator& e, const Value& self, const Args& args) {
  return Value::boolean(e.apply_test(Upper ? "upper" : "lower", self, args));
}

// Implements ljust and rjust. The width is limited, because it determines the memory of the result.
template <bool TextFirst>
Value justify(Evaluator& e, const Value& self, const Args& args) {
  const Params p("ljust and rjust", args, {"width", "fillchar"}, 1);
  static const std::string kSpace = " ";
  const std::int64_t width = p.integer(0, 0);
  const std::string& fill = p.text(1, kSpace);
  if (width > 100'000 || count_code_points(fill) != 1)
    throw Failure("ljust and rjust: width over 100000 or bad fillchar");
  std::string padding;
  for (std::int64_t n = static_cast<std::int64_t>(count_code_points(self.text())); n < width; ++n)
    padding += fill;
  return e.heap().text(TextFirst ? self.text() + padding : padding + self.text());
}

// Methods that split strings.

std::vector<Value> pieces(Evaluator& e, const std::vector<std::string_view>& parts) {
  std::vector<Value> values;
  e.budget().memory(parts.size() * sizeof parts[0]);
  values.reserve(parts.size());
  for (const std::string_view part : parts) values.push_back(e.heap().text(std::string(part)));
  return values;
}

// Returns the separator that parameter i contains, or null if it was not given. Null means white space.
const std::string* separator(const Params& p, std::size_t i) {
  if (!p.given(i)) return nullptr;
  const std::string& text = p.text(i, "");
  if (text.empty()) throw Failure("empty separator");
  return &text;
}

Value split(Evaluator& e, const Value& self, const Args& args) {
  const Params p("split", args, {"sep", "maxsplit"});
  const std::string* at = separator(p, 0);
  e.budget().text(self.text().size());
  const std::int64_t max_splits = p.integer(1, -1);
  return e.heap().list(
      pieces(e, at ? split_at(self.text(), *at, max_splits) : split_at_space(self.text(), max_splits)));
}

Value rsplit(Evaluator& e, const Value& self, const Args& args) {
  const Params p("rsplit", args, {"sep", "maxsplit"});
  const std::string* at = separator(p, 0);
  const std::int64_t max_splits = p.integer(1, -1);
  e.budget().text(self.text().size());
  if (!at && max_splits >= 0) throw Failure("rsplit with maxsplit needs a separator");
  return e.heap().list(
      pieces(e, at ? split_at_from_right(self.text(), *at, max_splits) : split_at_space(self.text(), -1)));
}

Value splitlines(Evaluator& e, const Value& self, const Args& args) {
  const Params p("splitlines", args, {"keepends"});
  e.budget().text(self.text().size());
  return e.heap().list(pieces(e, split_lines(self.text(), p.flag(0, false))));
}

template <bool FromRight>
Value partition(Evaluator& e, const Value& self, const Args& args) {
  const Params p("partition", args, {"sep"}, 1);
  const std::string* by = separator(p, 0);
  if (!by) throw Failure("partition needs a separator");
  const std::string_view text = self.text();
  e.budget().text(text.size());
  const std::size_t at = FromRight ? find_last_text(text, *by) : find_text(text, *by, 0);
  if (at == std::string_view::npos) {
    return e.heap().tuple(pieces(e, FromRight ? std::vector<std::string_view>{"", "", text}
                                              : std::vector<std::string_view>{text, "", ""}));
  }
  return e.heap().tuple(pieces(e, {text.substr(0, at), *by, text.substr(at + by->size())}));
}

// Methods of dicts, lists and the loop variable.

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
  // Charges for every entry, because the hash table stores positions, and removing an entry changes the
  // positions of all later ones.
  e.budget().steps(4 * self.dict()->entries.size());
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

// Returns the list on which a method was called that changes lists. Throws Failure if `self` is another
// sequence, such as a tuple or a range.
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

const NativeTable& text_methods() {
  static const NativeTable table = {
      {"upper", text_mapped<upper>},
      {"lower", text_mapped<lower>},
      {"title", text_mapped<title>},
      {"capitalize", text_mapped<capitalize>},
      {"strip", strip_at<Side::both>},
      {"lstrip", strip_at<Side::left>},
      {"rstrip", strip_at<Side::right>},
      {"startswith", starts_or_ends<false>},
      {"endswith", starts_or_ends<true>},
      {"replace", text_replace},
      {"find", find<true>},
      {"rfind", find<false>},
      {"index", index},
      {"count", count},
      {"join", text_join},
      {"format", text_format},
      {"removeprefix", remove_part<false>},
      {"removesuffix", remove_part<true>},
      {"isdigit", all_are<is_digit>},
      {"isnumeric", all_are<is_digit>},
      {"isdecimal", all_are<is_digit>},
      {"isalpha", all_are<is_letter>},
      {"isalnum", all_are<is_letter_or_digit>},
      {"isspace", all_are<is_space>},
      {"isupper", text_has_case<true>},
      {"islower", text_has_case<false>},
      {"ljust", justify<true>},
      {"rjust", justify<false>},
      {"split", split},
      {"rsplit", rsplit},
      {"splitlines", splitlines},
      {"partition", partition<false>},
      {"rpartition", partition<true>},
  };
  return table;
}

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
