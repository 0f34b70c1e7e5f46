// Allocation and its accounting.
#include "server/jinja/heap.h"

namespace hearth::jinja {
namespace {

// What the allocator and the deque take beside the object itself, roughly.
constexpr std::size_t kOverhead = 32;
// A dict entry's key bytes, hash node and handle pair, roughly.
constexpr std::size_t kDictEntry = 128;

}  // namespace

const Value* Scope::find(std::string_view name, Budget& budget) const {
  for (const Scope* scope = this; scope; scope = scope->parent) {
    budget.steps(1 + scope->names.size() / 16);
    for (const auto& [known, value] : scope->names) {
      if (known == name) return &value;
    }
  }
  return nullptr;
}

void Scope::set(std::string_view name, const Value& value, Budget& budget) {
  budget.steps(1 + names.size() / 16);
  for (auto& [known, held] : names) {
    if (known == name) {
      held = value;
      return;
    }
  }
  budget.memory(2 * sizeof names[0]);  // a growing vector holds up to twice its items
  names.emplace_back(name, value);
}

Value Heap::text(std::string s) {
  budget_.memory(s.size() + sizeof s + kOverhead);
  budget_.text(s.size());
  return Value::text(&texts_.emplace_back(std::move(s)));
}

Value Heap::undefined(std::string why) {
  budget_.memory(why.size() + sizeof why + kOverhead);
  return Value::undefined(&texts_.emplace_back(std::move(why)));
}

Sequence* Heap::sequence(Sequence::Kind kind, std::vector<Value> items) {
  budget_.memory(sizeof(Sequence) + kOverhead + items.size() * sizeof(Value));
  budget_.steps(1 + items.size());
  return &sequences_.emplace_back(Sequence{kind, std::move(items), {}});
}

Dict* Heap::dict() {
  budget_.memory(sizeof(Dict) + kOverhead);
  return &dicts_.emplace_back();
}

Namespace* Heap::name_space() {
  budget_.memory(sizeof(Namespace) + kOverhead);
  return &namespaces_.emplace_back();
}

Callable* Heap::callable(Callable c) {
  budget_.memory(sizeof(Callable) + kOverhead);
  return &callables_.emplace_back(std::move(c));
}

Loop* Heap::loop(Loop l) {
  budget_.memory(sizeof(Loop) + kOverhead);
  return &loops_.emplace_back(std::move(l));
}

Scope* Heap::scope(Scope* parent) {
  budget_.memory(sizeof(Scope) + kOverhead);
  return &scopes_.emplace_back(Scope{parent, {}});
}

void Heap::append(Sequence& list, const Value& item) {
  budget_.memory(2 * sizeof(Value));  // a growing vector holds up to twice its items
  list.items.push_back(item);
}

void Heap::set(Dict& dict, const Value& key, const Value& value) {
  const std::size_t key_bytes = key.is_text() ? key.text().size() : 0;
  budget_.memory(kDictEntry + key_bytes);
  budget_.text(key_bytes);
  dict.set(key, value);
}

}  // namespace hearth::jinja
