// What a template can call: built-in functions, methods bound to their object, and the template's own macros.
// Also the arguments of a call and the `loop` object of a for statement. Used on the rendering's thread.
#pragma once
#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/jinja/value.h"

namespace hearth::jinja {

class Evaluator;
struct Scope;
struct MacroBody;

struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<std::string_view, Value>> named;

  // Null when no argument of that name was given.
  const Value* find(std::string_view name) const;
};

// self: the object of a method, the operand of a filter or test, undefined for a plain function.
using Native = Value (*)(Evaluator& evaluator, const Value& self, const Args& args);

struct Callable {
  std::string_view name;
  Native native = nullptr;  // or a macro:
  Value self;
  const MacroBody* macro = nullptr;  // lives in the parsed template
  Scope* closure = nullptr;          // where the macro was defined
};

// The `loop` variable: which items, and where the iteration is.
struct Loop {
  explicit Loop(const Sequence* all) : items(all) {}
  const Sequence* items = nullptr;
  std::size_t index0 = 0;
  bool has_seen = false;
  Value seen;  // argument of the last loop.changed(...)
};

// Matches call arguments with a built-in's parameter names. Throws Failure for too many, unknown, repeated or
// missing ones.
class Params {
 public:
  Params(std::string_view function, const Args& args, std::initializer_list<std::string_view> names,
         std::size_t n_required = 0);

  // Null when that parameter was not given.
  const Value* operator[](std::size_t i) const { return found_[i]; }
  // As above; None counts as not given.
  const Value* given(std::size_t i) const { return found_[i] && !found_[i]->is_none() ? found_[i] : nullptr; }

  // The parameter as the wanted type, or the default when not given. Throws Failure naming the parameter on a
  // wrong type.
  const std::string& text(std::size_t i, const std::string& otherwise) const;
  std::int64_t integer(std::size_t i, std::int64_t otherwise) const;
  bool flag(std::size_t i, bool otherwise) const;

 private:
  std::string_view function_;
  std::vector<std::string_view> names_;
  std::vector<const Value*> found_;
};

}  // namespace hearth::jinja
