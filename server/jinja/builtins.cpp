// Implements argument matching, lookup by name, attribute paths, and the functions that a template can call
// by name: range, dict, namespace, joiner, raise_exception and strftime_now.
#include "server/jinja/builtins.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <string>

#include "server/jinja/evaluator.h"
#include "server/jinja/format.h"
#include "server/jinja/operators.h"
#include "server/jinja/template_error.h"
#include "server/jinja/text.h"

namespace hearth::jinja {
const Value* Args::find(std::string_view name) const {
  for (const auto& [given, value] : named) {
    if (given == name) return &value;
  }
  return nullptr;
}

Params::Params(std::string_view function, const Args& args, std::initializer_list<std::string_view> names,
               std::size_t n_required)
    : function_(function), names_(names), found_(names.size(), nullptr) {
  const std::string who(function);
  if (args.positional.size() > names_.size()) {
    throw Failure(who + " takes at most " + std::to_string(names_.size()) + " arguments, " +
                  std::to_string(args.positional.size()) + " were given");
  }
  for (std::size_t i = 0; i < args.positional.size(); ++i) found_[i] = &args.positional[i];
  for (const auto& [name, value] : args.named) {
    const auto at = std::find(names_.begin(), names_.end(), name);
    if (at == names_.end()) throw Failure(who + " has no parameter '" + std::string(name) + "'");
    const std::size_t i = static_cast<std::size_t>(at - names_.begin());
    if (found_[i]) throw Failure(who + " got two values for '" + std::string(name) + "'");
    found_[i] = &value;
  }
  for (std::size_t i = 0; i < n_required; ++i) {
    if (!found_[i]) throw Failure(who + " needs the argument '" + std::string(names_[i]) + "'");
  }
}

const std::string& Params::text(std::size_t i, const std::string& otherwise) const {
  if (!found_[i]) return otherwise;
  if (!found_[i]->is_text()) {
    throw Failure(std::string(function_) + ": '" + std::string(names_[i]) + "' must be a string, it is " +
                  found_[i]->type_name());
  }
  return found_[i]->text();
}

std::int64_t Params::integer(std::size_t i, std::int64_t otherwise) const {
  if (!found_[i]) return otherwise;
  if (!found_[i]->is_integral()) {
    throw Failure(std::string(function_) + ": '" + std::string(names_[i]) + "' must be an integer, it is " +
                  found_[i]->type_name());
  }
  return found_[i]->integral();
}

bool Params::flag(std::size_t i, bool otherwise) const { return found_[i] ? truthy(*found_[i]) : otherwise; }

namespace {

Native find_in(std::initializer_list<const NativeTable*> tables, std::string_view name) {
  for (const NativeTable* table : tables) {
    const auto at = table->find(name);
    if (at != table->end()) return at->second;
  }
  return nullptr;
}

}  // namespace

Native find_filter(std::string_view name) { return find_in({&text_filters(), &filters()}, name); }

Native find_test(std::string_view name) { return find_in({&tests()}, name); }

Native find_method(const Value& object, std::string_view name) {
  if (object.is_text()) return find_in({&text_methods()}, name);
  if (object.dict()) return find_in({&dict_methods()}, name);
  if (object.loop()) return find_in({&loop_methods()}, name);
  const Sequence* s = object.sequence();
  return s && s->indexable() ? find_in({&list_methods()}, name) : nullptr;
}

Value follow(Evaluator& e, const Value& value, const Value* attribute, const Value* otherwise) {
  if (!attribute) return value;
  if (!attribute->is_text()) return e.item(value, *attribute);
  Value at = value;
  for (const std::string_view part : split_at(attribute->text(), ".", -1)) {
    const bool is_index =
        !part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == part.npos;
    at = is_index ? e.item(at, Value::integer(std::stoi(std::string(part))))
                  : e.item(at, e.heap().text(std::string(part)));
    if (otherwise && at.is_undefined()) return *otherwise;
  }
  return at;
}

Value fold_case(Evaluator& e, const Value& value, bool case_sensitive) {
  return value.is_text() && !case_sensitive ? e.heap().text(lower(value.text())) : value;
}

const Value* attribute_param(const Params& params, std::size_t i) {
  const Value* attribute = params.given(i);
  if (attribute && !attribute->is_text() && !attribute->is_integral()) {
    throw Failure("an attribute must be a name or an index, not " + attribute->type_name());
  }
  return attribute;
}

// Functions.

namespace {

// The limit of Jinja's sandbox.
constexpr std::int64_t kMaxRange = 100'000;

std::int64_t whole(const Value& value) {
  if (value.is_undefined()) fail_undefined(value);
  if (!value.is_integral())
    throw Failure("'" + value.type_name() + "' object cannot be interpreted as an integer");
  return value.integral();
}

// Returns the number of values of range(start, stop, step). Exact for all 64-bit bounds.
std::uint64_t range_size(std::int64_t start, std::int64_t stop, std::int64_t step) {
  if (step > 0 ? start >= stop : start <= stop) return 0;
  const std::uint64_t distance = step > 0
                                     ? static_cast<std::uint64_t>(stop) - static_cast<std::uint64_t>(start)
                                     : static_cast<std::uint64_t>(start) - static_cast<std::uint64_t>(stop);
  const std::uint64_t stride =
      step > 0 ? static_cast<std::uint64_t>(step) : 0 - static_cast<std::uint64_t>(step);
  return (distance - 1) / stride + 1;
}

Value range(Evaluator& e, const Value&, const Args& args) {
  const std::vector<Value>& given = args.positional;
  if (given.empty() || given.size() > 3 || !args.named.empty())
    throw Failure("range takes one to three integers");
  const std::int64_t start = given.size() > 1 ? whole(given[0]) : 0;
  const std::int64_t stop = whole(given[given.size() > 1 ? 1 : 0]);
  const std::int64_t step = given.size() > 2 ? whole(given[2]) : 1;
  if (step == 0) throw Failure("range() arg 3 must not be zero");
  const std::uint64_t size = range_size(start, stop, step);
  if (size > static_cast<std::uint64_t>(kMaxRange)) {
    throw Failure("Range too big: at most " + std::to_string(kMaxRange) + " values are allowed");
  }
  e.budget().memory(size * sizeof(Value));
  std::vector<Value> items;
  for (std::uint64_t i = 0; i < size; ++i) {
    items.push_back(Value::integer(start + static_cast<std::int64_t>(i) * step));
  }
  Sequence* s = e.heap().sequence(Sequence::Kind::range, std::move(items));
  s->label = "range(" + std::to_string(start) + ", " + std::to_string(stop) +
             (step == 1 ? "" : ", " + std::to_string(step)) + ")";
  return Value::of(s);
}

// Implements dict(mapping or pairs, **more): adds the entries to `into`.
void fill(Evaluator& e, Dict& into, const Args& args) {
  if (args.positional.size() > 1) throw Failure("dict and namespace take at most one positional argument");
  if (!args.positional.empty()) {
    if (const Dict* other = args.positional[0].dict()) {
      for (const auto& [key, value] : other->entries) e.heap().set(into, key, value);
    } else {
      for (const Value& pair : iterate(args.positional[0], e.heap())) {
        const std::vector<Value> parts = iterate(pair, e.heap());
        if (parts.size() != 2) throw Failure("dict and namespace need pairs of key and value");
        e.heap().set(into, parts[0], parts[1]);
      }
    }
  }
  for (const auto& [name, value] : args.named) e.heap().set(into, e.heap().text(std::string(name)), value);
}

Value dict(Evaluator& e, const Value&, const Args& args) {
  Dict* made = e.heap().dict();
  fill(e, *made, args);
  return Value::of(made);
}

Value name_space(Evaluator& e, const Value&, const Args& args) {
  Namespace* made = e.heap().name_space();
  fill(e, made->attributes, args);
  return Value::of(made);
}

// Implements the call of a joiner. The first call returns the empty string, and every later call returns the
// separator.
Value next_separator(Evaluator& e, const Value& self, const Args& args) {
  const Params none("a joiner", args, {});
  std::vector<Value>& state = self.sequence()->items;
  if (state.size() > 1) return state[0];
  e.heap().append(*self.sequence(), Value::boolean(true));
  return e.heap().text("");
}

Value joiner(Evaluator& e, const Value&, const Args& args) {
  const Params p("joiner", args, {"sep"});
  Callable made;
  made.name = "joiner";
  made.native = next_separator;
  made.self = e.heap().list({p[0] ? *p[0] : e.heap().text(", ")});
  return Value::of(e.heap().callable(made));
}

Value raise_exception(Evaluator& e, const Value&, const Args& args) {
  const Params p("raise_exception", args, {"message"}, 1);
  throw RaisedByTemplate(to_text(*p[0], e.budget()));
}

Value strftime_now(Evaluator& e, const Value&, const Args& args) {
  const Params p("strftime_now", args, {"format"}, 1);
  const std::string& format = p.text(0, "");
  if (format.empty()) return e.heap().text("");
  std::array<char, 1024> buffer{};
  const std::tm now = e.now();
  // The dot makes the result at least one byte long. A result of zero then always means that the buffer is
  // too small.
  const std::size_t n = std::strftime(buffer.data(), buffer.size(), ("." + format).c_str(), &now);
  if (n == 0) throw Failure("strftime_now: the text is over 1 KiB");
  return e.heap().text(std::string(buffer.data() + 1, n - 1));
}

}  // namespace

const NativeTable& functions() {
  static const NativeTable table = {
      {"range", range},
      {"dict", dict},
      {"namespace", name_space},
      {"joiner", joiner},
      {"raise_exception", raise_exception},
      {"strftime_now", strftime_now},
  };
  return table;
}

}  // namespace hearth::jinja
