// Type names, hashing and the ordered dict of value.h.
#include "server/jinja/value.h"

#include <array>
#include <cmath>
#include <cstring>

#include "server/jinja/error.h"

namespace hearth::jinja {
namespace {

// Keys that are text are by far the most common: one letter in front keeps them apart from numbers.
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
  // In the order of Held.
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

}  // namespace hearth::jinja
