// The values of the template language, which behave as in Python; the heap that owns them; and the limits on
// the cost of one rendering.
//
// A Value is a small handle. Its text, list or dict belongs to the rendering's Heap, the parsed template or
// the request's JSON, which all outlive the Value. As in Python, two names can refer to one list, and a list
// may contain itself. All values are freed together at the end of the rendering.
//
// Used by the evaluator and the built-ins. One rendering runs on one thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "server/jinja/template_error.h"

namespace hearth::jinja {

class Evaluator;
struct Args;
struct MacroBody;
struct Scope;
struct Sequence;
struct Dict;
struct Namespace;
struct Callable;
struct Loop;

// The limits on the cost of one rendering. The template comes with the model file and its input comes with a
// request. Neither may block the server or exhaust its memory.
struct Limits {
  // A step is one evaluated node, one list element or 32 bytes of text. 20 million steps take about one
  // second.
  std::uint64_t max_steps = 20'000'000;
  // Limits the total size of all values that a rendering creates, because they are freed only at its end. A
  // long prompt is smaller than 1 MiB.
  std::size_t max_bytes = std::size_t{256} << 20;
  // Limits the levels of nested evaluation, including macros. A level uses up to 2 KiB of stack (5 KiB under
  // ASan), and a thread has 8 MiB.
  int max_depth = 600;
};

// Counts the cost of one rendering. A method throws Failure if a limit is exceeded. Used by the thread that
// renders.
class Budget {
 public:
  explicit Budget(const Limits& limits) : limits_(limits) {}

  // Charges for n steps. Call before doing the work.
  void steps(std::uint64_t n) {
    steps_ += n;
    if (steps_ > limits_.max_steps) {
      throw Failure("the template runs too long: more than " + std::to_string(limits_.max_steps) + " steps");
    }
  }
  // Charges for reading or copying n bytes of text. Call before reading or copying.
  void text(std::size_t n) { steps(1 + n / 32); }
  // Charges for n bytes of memory that are held until the end of the rendering. Call before allocating.
  void memory(std::size_t n) {
    if (n > limits_.max_bytes - bytes_) {
      throw Failure("the template needs too much memory: more than " + std::to_string(limits_.max_bytes) +
                    " bytes");
    }
    bytes_ += n;
  }
  // Begin and end one level of nesting. Use the class Level instead of calling these directly.
  void enter() {
    if (++depth_ > limits_.max_depth) {
      --depth_;
      throw Failure("the template nests too deeply: more than " + std::to_string(limits_.max_depth) +
                    " levels");
    }
  }
  void leave() { --depth_; }

 private:
  Limits limits_;
  std::uint64_t steps_ = 0;
  std::size_t bytes_ = 0;
  int depth_ = 0;
};

// One level of nesting, which lasts as long as this object.
class Level {
 public:
  explicit Level(Budget& budget) : budget_(budget) { budget_.enter(); }
  ~Level() { budget_.leave(); }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  Budget& budget_;
};

struct Undefined {
  // Why the value is undefined, for error messages. Not null if the Heap created the value.
  const std::string* why = nullptr;
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
  // In Python, a bool is also an int. For a bool, is_int() is false and is_integral() is true.
  bool is_int() const { return is<std::int64_t>(); }
  bool is_integral() const { return is_int() || is_bool(); }
  bool is_real() const { return is<double>(); }
  bool is_number() const { return is_integral() || is_real(); }
  bool is_text() const { return is<const std::string*>(); }

  // Return the value as its C++ type. REQUIRES: the value has the type after which the function is named.
  // number() also accepts integers.
  bool boolean() const { return std::get<bool>(held_); }
  std::int64_t integral() const { return is_bool() ? boolean() : std::get<std::int64_t>(held_); }
  double number() const { return is_real() ? std::get<double>(held_) : static_cast<double>(integral()); }
  const std::string& text() const { return *std::get<const std::string*>(held_); }
  const std::string* why_undefined() const { return std::get<Undefined>(held_).why; }

  // Return the object, or null if the value has a different type.
  Sequence* sequence() const { return get<Sequence>(); }
  Dict* dict() const { return get<Dict>(); }
  Namespace* name_space() const { return get<Namespace>(); }
  Callable* callable() const { return get<Callable>(); }
  Loop* loop() const { return get<Loop>(); }

  // Returns Python's name for the type: 'str', 'int', 'NoneType', ...
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

// A list, tuple, range, dict view or generator. Filters such as `map` return generators. As in Python, a
// generator yields its items only once.
struct Sequence {
  enum class Kind { list, tuple, range, view, generator };
  Kind kind = Kind::list;
  std::vector<Value> items;
  std::string label;  // printed form of a range or view: "range(0, 3)", "dict_keys"
  bool indexable() const { return kind == Kind::list || kind == Kind::tuple || kind == Kind::range; }
};

// A mapping that keeps the order of insertion. Keys are hashable values. 1, 1.0 and True are one key.
struct Dict {
  std::vector<std::pair<Value, Value>> entries;
  std::unordered_map<std::string, std::size_t> index;  // maps hash_key(key) to an index of entries

  // Returns null if the key is absent. Throws Failure if the key is unhashable.
  const Value* find(const Value& key) const;
  const Value* find(std::string_view text_key) const;
  void set(const Value& key, const Value& value);
  // Returns false if the key was absent.
  bool erase(const Value& key);
};

// A namespace(...). Only its attributes can be set by templates.
struct Namespace {
  Dict attributes;
};

// Returns the bytes under which a Dict stores a key. Values that are equal in Python, such as 1, 1.0 and
// True, have equal bytes. Throws Failure if the key is unhashable.
std::string hash_key(const Value& key);

// A built-in written in C++. self: the object of a method, the operand of a filter or test, or undefined for
// a function.
using Native = Value (*)(Evaluator& evaluator, const Value& self, const Args& args);

// A value that a template can call: a built-in function, a method bound to its object, or a macro.
struct Callable {
  std::string_view name;
  Native native = nullptr;  // null for a macro
  Value self;
  const MacroBody* macro = nullptr;  // points into the parsed template; null for a built-in
  Scope* closure = nullptr;          // the scope in which the macro was defined
};

// The `loop` variable of a for statement: the items and the current position.
struct Loop {
  explicit Loop(const Sequence* all) : items(all) {}
  const Sequence* items = nullptr;
  std::size_t index0 = 0;
  bool has_seen = false;
  Value seen;  // the arguments of the last loop.changed(...); valid if has_seen is true
};

// The names that are set in one block of the template. Names of enclosing blocks are visible through
// `parent`.
struct Scope {
  Scope* parent = nullptr;
  // The names refer to text in the template or the request.
  std::vector<std::pair<std::string_view, Value>> names;

  // Returns null if the name is not set in this scope or in an enclosing scope.
  const Value* find(std::string_view name, Budget& budget) const;
  void set(std::string_view name, const Value& value, Budget& budget);
};

// Owns all values that a rendering creates, and frees them together. Charges their memory to the Budget. Each
// rendering has one Heap, on the thread that renders.
class Heap {
 public:
  explicit Heap(Budget& budget) : budget_(budget) {}
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  Budget& budget() { return budget_; }

  // Create a value that lives as long as the heap. Throw Failure if the Budget is exceeded.
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
  Callable* callable(const Callable& c);
  Loop* loop(const Loop& l);
  Scope* scope(Scope* parent);

  // Enlarge an existing value and charge for the growth.
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
