// The built-in names of templates: filters, tests, functions, and the methods of strings, dicts and lists.
// Also the classes with which built-ins read the arguments of a call and match them with parameters.
//
// The tables are constant, and lookup is safe on any thread. The built-ins themselves run on the thread that
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
// there are too many arguments, or if one is unknown, repeated or missing. The object points into args, which
// must outlive it.
class Params {
 public:
  Params(std::string_view function, const Args& args, std::initializer_list<std::string_view> names,
         std::size_t n_required = 0);

  // Returns null if that parameter was not given.
  const Value* operator[](std::size_t i) const { return found_[i]; }
  // Like operator[], but also returns null for None.
  const Value* given(std::size_t i) const { return found_[i] && !found_[i]->is_none() ? found_[i] : nullptr; }

  // Return the parameter as a value of this type, or `otherwise` if it was not given. Throw Failure, which
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
// Returns a method of objects of this type, or null if they have no method of that name.
Native find_method(const Value& object, std::string_view name);

// Starts at `value` and follows the path that the `attribute=` parameter of sort, map, join, sum and other
// filters gives: "name", "author.name", "items.0" or an index. Returns `value` itself if attribute is null.
// If an attribute on the path is missing and `otherwise` is not null, returns `otherwise`.
Value follow(Evaluator& e, const Value& value, const Value* attribute, const Value* otherwise = nullptr);

// Returns text in lower case, for filters that ignore case. Returns the value unchanged if case_sensitive is
// true or the value is not text.
Value fold_case(Evaluator& e, const Value& value, bool case_sensitive);

// Like Params::given(), but for an `attribute=` parameter: throws Failure if it is neither a name nor an
// index.
const Value* attribute_param(const Params& params, std::size_t i);

}  // namespace hearth::jinja
