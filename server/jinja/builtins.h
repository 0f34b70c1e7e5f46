// The built-in filters, tests, functions and methods of templates, and the classes with which they read the
// arguments of a call.
//
// Lookup is safe on any thread, because the tables are constant. The built-ins run on the thread that
// renders.
#pragma once
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "server/jinja/value.h"

namespace hearth::jinja {

// The arguments of a call.
struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<std::string_view, Value>> named;

  // Returns null if no argument of that name was given.
  const Value* find(std::string_view name) const;
};

// Matches the arguments of a call with the parameter names of a built-in. The constructor throws Failure if
// there are too many arguments, or if one is unknown, repeated or missing. The object refers to `args`, which
// must outlive it.
class Params {
 public:
  Params(std::string_view function, const Args& args, std::initializer_list<std::string_view> names,
         std::size_t n_required = 0);

  // Returns null if that parameter was not given.
  const Value* operator[](std::size_t i) const { return found_[i]; }
  // Returns null if the parameter was not given or is None.
  const Value* given(std::size_t i) const { return found_[i] && !found_[i]->is_none() ? found_[i] : nullptr; }

  // Returns the parameter as a value of this type, or `otherwise` if it was not given. Throws Failure, which
  // names the parameter, if the value has a different type.
  const std::string& text(std::size_t i, const std::string& otherwise) const;
  std::int64_t integer(std::size_t i, std::int64_t otherwise) const;
  bool flag(std::size_t i, bool otherwise) const;

 private:
  std::string_view function_;
  std::vector<std::string_view> names_;
  std::vector<const Value*> found_;
};

using NativeTable = std::unordered_map<std::string_view, Native>;

// The tables of built-ins. Filters are in filters.cpp and text_filters.cpp, tests in is_tests.cpp, functions
// in builtins.cpp, methods in methods.cpp.
const NativeTable& text_filters();
const NativeTable& filters();
const NativeTable& tests();
const NativeTable& functions();
const NativeTable& text_methods();
const NativeTable& dict_methods();
const NativeTable& list_methods();
const NativeTable& loop_methods();

// Returns null if no built-in has that name.
Native find_filter(std::string_view name);
Native find_test(std::string_view name);
// Returns a method of the object's type, or null if the type has no method of that name.
Native find_method(const Value& object, std::string_view name);

// Returns the value at a path that starts at `value`. attribute: the `attribute=` parameter of a filter such
// as sort, map, join or sum: "name", "author.name", "items.0" or an index; if null, `value` itself is
// returned. otherwise: if not null, returned when an attribute on the path is missing.
Value follow(Evaluator& e, const Value& value, const Value* attribute, const Value* otherwise = nullptr);

// Returns text in lower case, for filters that ignore case. Returns the value unchanged if case_sensitive is
// true or the value is not text.
Value fold_case(Evaluator& e, const Value& value, bool case_sensitive);

// Like Params::given(), for an `attribute=` parameter. Throws Failure if the parameter is neither a name nor
// an index.
const Value* attribute_param(const Params& params, std::size_t i);

}  // namespace hearth::jinja
