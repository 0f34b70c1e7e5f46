// Values of the template language, with Python's types and meaning. A Value is a small handle; what it points
// to (text, lists, dicts) lives in the Heap of the rendering, in the parsed template or in the request's
// JSON, all of which outlive it. So aliases see each other's changes as in Python, cycles cost nothing, and
// everything is freed at once. Used by the evaluator and its built-ins, one rendering on one thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace hearth::jinja {

struct Sequence;
struct Dict;
struct Namespace;
struct Callable;
struct Loop;

struct Undefined {
  const std::string* why =
      nullptr;  // the sentence an error on this value says; never null once made by the Heap
};
struct None {};

class Value {
 public:
  Value() : held_(Undefined{}) {}
  static Value none() { return Value(None{}); }
  static Value undefined(const std::string* why) { return Value(Undefined{why}); }
  static Value boolean(bool b) { return Value(b); }
  static Value integer(std::int64_t i) { return Value(i); }
  static Value real(double d) { return Value(d); }
  static Value text(const std::string* s) { return Value(s); }
  static Value of(Sequence* s) { return Value(s); }
  static Value of(Dict* d) { return Value(d); }
  static Value of(Namespace* n) { return Value(n); }
  static Value of(Callable* c) { return Value(c); }
  static Value of(Loop* l) { return Value(l); }

  bool is_undefined() const { return is<Undefined>(); }
  bool is_none() const { return is<None>(); }
  bool is_bool() const { return is<bool>(); }
  // Python's bool is an int; is_int() is not true for it, is_integral() is.
  bool is_int() const { return is<std::int64_t>(); }
  bool is_integral() const { return is_int() || is_bool(); }
  bool is_real() const { return is<double>(); }
  bool is_number() const { return is_integral() || is_real(); }
  bool is_text() const { return is<const std::string*>(); }

  // The following require the matching type.
  bool boolean() const { return std::get<bool>(held_); }
  std::int64_t integral() const { return is_bool() ? boolean() : std::get<std::int64_t>(held_); }
  double number() const { return is_real() ? std::get<double>(held_) : static_cast<double>(integral()); }
  const std::string& text() const { return *std::get<const std::string*>(held_); }
  const std::string* why_undefined() const { return std::get<Undefined>(held_).why; }

  // Null unless the value is of that type.
  Sequence* sequence() const { return get<Sequence>(); }
  Dict* dict() const { return get<Dict>(); }
  Namespace* name_space() const { return get<Namespace>(); }
  Callable* callable() const { return get<Callable>(); }
  Loop* loop() const { return get<Loop>(); }

  // Python's name of the type: 'str', 'int', 'NoneType', ...
  std::string type_name() const;

 private:
  using Held = std::variant<Undefined, None, bool, std::int64_t, double, const std::string*, Sequence*, Dict*,
                            Namespace*, Callable*, Loop*>;
  template <typename T>
  explicit Value(T held) : held_(std::in_place_type<T>, held) {}
  template <typename T>
  bool is() const {
    return std::holds_alternative<T>(held_);
  }
  template <typename T>
  T* get() const {
    T* const* p = std::get_if<T*>(&held_);
    return p ? *p : nullptr;
  }
  Held held_;
};

// list, tuple, range, dict view, or a generator such as `map` returns. A generator gives its items once, as
// in Python.
struct Sequence {
  enum class Kind { list, tuple, range, view, generator };
  Kind kind = Kind::list;
  std::vector<Value> items;
  std::string label;  // how a range or view prints: "range(0, 3)", "dict_keys"
  bool indexable() const { return kind == Kind::list || kind == Kind::tuple || kind == Kind::range; }
};

// Insertion-ordered mapping. Keys are any hashable value; 1, 1.0 and True are one key.
struct Dict {
  std::vector<std::pair<Value, Value>> entries;
  std::unordered_map<std::string, std::size_t> index;  // hash_key(key) -> position in entries

  // Null when absent. Throws Failure for an unhashable key.
  const Value* find(const Value& key) const;
  const Value* find(std::string_view text_key) const;
  void set(const Value& key, const Value& value);
  // False when absent.
  bool erase(const Value& key);
};

// namespace(...): the one object whose attributes a template may set.
struct Namespace {
  Dict attributes;
};

// The bytes by which a key is found: equal for values that Python holds equal. Throws Failure if unhashable.
std::string hash_key(const Value& key);

}  // namespace hearth::jinja
