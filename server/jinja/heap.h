// Owns every value one rendering makes and frees them together at its end. Charges each to the rendering's
// Budget. One per rendering, used by the evaluator and its built-ins on one thread.
#pragma once
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/jinja/callable.h"
#include "server/jinja/limits.h"
#include "server/jinja/value.h"

namespace hearth::jinja {

// Names visible at one place of the template: those set here, then those of the enclosing scope.
struct Scope {
  Scope* parent = nullptr;
  std::vector<std::pair<std::string_view, Value>> names;  // names point into the template or the request

  // Null when not set here or in a scope around this one.
  const Value* find(std::string_view name, Budget& budget) const;
  void set(std::string_view name, const Value& value, Budget& budget);
};

class Heap {
 public:
  explicit Heap(Budget& budget) : budget_(budget) {}
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  Budget& budget() { return budget_; }

  // Each throws Failure when the Budget is used up.
  Value text(std::string s);
  Value undefined(std::string why);
  Sequence* sequence(Sequence::Kind kind, std::vector<Value> items = {});
  Value list(std::vector<Value> items) { return Value::of(sequence(Sequence::Kind::list, std::move(items))); }
  Value tuple(std::vector<Value> items) {
    return Value::of(sequence(Sequence::Kind::tuple, std::move(items)));
  }
  Value generator(std::vector<Value> items) {
    return Value::of(sequence(Sequence::Kind::generator, std::move(items)));
  }
  Dict* dict();
  Namespace* name_space();
  Callable* callable(Callable c);
  Loop* loop(Loop l);
  Scope* scope(Scope* parent);

  // Changes that make an existing value larger, charged too.
  void append(Sequence& list, const Value& item);
  void set(Dict& dict, const Value& key, const Value& value);

 private:
  Budget& budget_;
  std::deque<std::string> texts_;
  std::deque<Sequence> sequences_;
  std::deque<Dict> dicts_;
  std::deque<Namespace> namespaces_;
  std::deque<Callable> callables_;
  std::deque<Loop> loops_;
  std::deque<Scope> scopes_;
};

}  // namespace hearth::jinja
