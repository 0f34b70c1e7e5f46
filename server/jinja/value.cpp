// Implements type names, hashing, the ordered dict, and allocation with its charges.
#include "server/jinja/value.h"

#include <array>
#include <cmath>
#include <cstring>

namespace hearth::jinja {
namespace {

// The first letter of a key depends on its type, so that text never equals a number.
std::string text_hash_key(std::string_view text) {
  std::string key;
  key.reserve(text.size() + 1);
  key += 's';
  key += text;
  return key;
}

std::string real_hash_key(double d) {
  if (std::nearbyint(d) == d && std::abs(d) < 9e18) return "i" + std::to_string(static_cast<std::int64_t>(d));
  std::string key(1 + sizeof d, 'f');
  std::memcpy(key.data() + 1, &d, sizeof d);
  return key;
}

std::string tuple_hash_key(const Sequence& tuple) {
  std::string key = "t";
  for (const Value& item : tuple.items) {
    const std::string part = hash_key(item);
    key += std::to_string(part.size()) + ":" + part;
  }
  return key;
}

// Estimated bytes that the allocator and the deque use for each object, in addition to the object.
constexpr std::size_t kOverhead = 32;
// Estimated bytes of an entry in addition to the text of its key: a hash node and two values.
constexpr std::size_t kDictEntry = 128;

}  // namespace

std::string Value::type_name() const {
  if (const Sequence* s = sequence()) {
    switch (s->kind) {
      case Sequence::Kind::list:
        return "list";
      case Sequence::Kind::tuple:
        return "tuple";
      case Sequence::Kind::range:
        return "range";
      case Sequence::Kind::view:
        return s->label;
      case Sequence::Kind::generator:
        return "generator";
    }
  }
  // The names of the types, in the order of the alternatives of Held.
  static constexpr std::array<const char*, 11> kNames = {
      "Undefined", "NoneType", "bool",      "int",      "float",       "str",
      "list",      "dict",     "Namespace", "function", "LoopContext",
  };
  return kNames[held_.index()];
}

std::string hash_key(const Value& key) {
  if (key.is_text()) return text_hash_key(key.text());
  if (key.is_integral()) return "i" + std::to_string(key.integral());
  if (key.is_real()) return real_hash_key(key.number());
  if (key.is_none()) return "n";
  if (key.is_undefined()) return "u";
  if (const Sequence* s = key.sequence(); s && s->kind == Sequence::Kind::tuple) return tuple_hash_key(*s);
  throw Failure("unhashable type: '" + key.type_name() + "'");
}

const Value* Dict::find(const Value& key) const {
  const auto at = index.find(hash_key(key));
  return at == index.end() ? nullptr : &entries[at->second].second;
}

const Value* Dict::find(std::string_view text_key) const {
  const auto at = index.find(text_hash_key(text_key));
  return at == index.end() ? nullptr : &entries[at->second].second;
}

void Dict::set(const Value& key, const Value& value) {
  const auto [at, is_new] = index.emplace(hash_key(key), entries.size());
  if (is_new) {
    entries.emplace_back(key, value);
  } else {
    entries[at->second].second = value;
  }
}

bool Dict::erase(const Value& key) {
  const auto at = index.find(hash_key(key));
  if (at == index.end()) return false;
  const std::size_t gone = at->second;
  index.erase(at);
  entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(gone));
  for (auto& [hash, position] : index) {
    if (position > gone) --position;
  }
  return true;
}

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
  budget.memory(2 * sizeof names[0]);  // a growing vector may reserve twice the bytes of its items
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

Callable* Heap::callable(const Callable& c) {
  budget_.memory(sizeof(Callable) + kOverhead);
  return &callables_.emplace_back(c);
}

Loop* Heap::loop(const Loop& l) {
  budget_.memory(sizeof(Loop) + kOverhead);
  return &loops_.emplace_back(l);
}

Scope* Heap::scope(Scope* parent) {
  budget_.memory(sizeof(Scope) + kOverhead);
  return &scopes_.emplace_back(Scope{parent, {}});
}

void Heap::append(Sequence& list, const Value& item) {
  budget_.memory(2 * sizeof(Value));  // a growing vector may reserve twice the bytes of its items
  list.items.push_back(item);
}

void Heap::set(Dict& dict, const Value& key, const Value& value) {
  const std::size_t key_bytes = key.is_text() ? key.text().size() : 0;
  budget_.memory(kDictEntry + key_bytes);
  budget_.text(key_bytes);
  dict.set(key, value);
}

}  // namespace hearth::jinja
