// Filters that apply a filter or a test to each item: map, select, reject, selectattr, rejectattr; and
// default and attr.
#include "server/jinja/attribute_path.h"
#include "server/jinja/builtins.h"
#include "server/jinja/evaluator.h"
#include "server/jinja/operators.h"

namespace hearth::jinja {
namespace {

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

// The name at `i` of a filter or test to apply.
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

// The items (or those whose attribute, named first) for which the test gives `wanted`; without a test, their
// truth.
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

}  // namespace

const NativeTable& selection_filters() {
  static const NativeTable table = {
      {"default", or_default},
      {"d", or_default},
      {"attr", attr},
      {"map", map},
      {"select", pick_as<false, true>},
      {"reject", pick_as<false, false>},
      {"selectattr", pick_as<true, true>},
      {"rejectattr", pick_as<true, false>},
  };
  return table;
}

}  // namespace hearth::jinja
