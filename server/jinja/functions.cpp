// Functions a template can call by name: range, dict, namespace, joiner, and the two that chat templates are
// promised, raise_exception and strftime_now.
#include <array>
#include <ctime>

#include "server/jinja/builtins.h"
#include "server/jinja/evaluator.h"
#include "server/jinja/operators.h"
#include "server/jinja/text_format.h"

namespace hearth::jinja {
namespace {

// The same bound as Jinja's sandbox.
constexpr std::int64_t kMaxRange = 100'000;

std::int64_t whole(const Value& value) {
  if (value.is_undefined()) fail_undefined(value);
  if (!value.is_integral())
    throw Failure("'" + value.type_name() + "' object cannot be interpreted as an integer");
  return value.integral();
}

// Number of values of range(start, stop, step), exact for all 64-bit bounds.
std::uint64_t range_size(std::int64_t start, std::int64_t stop, std::int64_t step) {
  if (step > 0 ? start >= stop : start <= stop) return 0;
  const std::uint64_t distance = step > 0
                                     ? static_cast<std::uint64_t>(stop) - static_cast<std::uint64_t>(start)
                                     : static_cast<std::uint64_t>(start) - static_cast<std::uint64_t>(stop);
  const std::uint64_t stride =
      step > 0 ? static_cast<std::uint64_t>(step) : 0 - static_cast<std::uint64_t>(step);
  return (distance - 1) / stride + 1;
}

Value range(Evaluator& e, const Value&, const Args& args) {
  const std::vector<Value>& given = args.positional;
  if (given.empty() || given.size() > 3 || !args.named.empty())
    throw Failure("range takes one to three integers");
  const std::int64_t start = given.size() > 1 ? whole(given[0]) : 0;
  const std::int64_t stop = whole(given[given.size() > 1 ? 1 : 0]);
  const std::int64_t step = given.size() > 2 ? whole(given[2]) : 1;
  if (step == 0) throw Failure("range() arg 3 must not be zero");
  const std::uint64_t size = range_size(start, stop, step);
  if (size > static_cast<std::uint64_t>(kMaxRange)) {
    throw Failure("Range too big: at most " + std::to_string(kMaxRange) + " values are allowed");
  }
  e.budget().memory(size * sizeof(Value));
  std::vector<Value> items;
  for (std::uint64_t i = 0; i < size; ++i) {
    items.push_back(Value::integer(start + static_cast<std::int64_t>(i) * step));
  }
  Sequence* s = e.heap().sequence(Sequence::Kind::range, std::move(items));
  s->label = "range(" + std::to_string(start) + ", " + std::to_string(stop) +
             (step == 1 ? "" : ", " + std::to_string(step)) + ")";
  return Value::of(s);
}

// dict(mapping or pairs, **more), into `into`.
void fill(Evaluator& e, Dict& into, const Args& args) {
  if (args.positional.size() > 1) throw Failure("dict and namespace take at most one positional argument");
  if (!args.positional.empty()) {
    if (const Dict* other = args.positional[0].dict()) {
      for (const auto& [key, value] : other->entries) e.heap().set(into, key, value);
    } else {
      for (const Value& pair : iterate(args.positional[0], e.heap())) {
        const std::vector<Value> parts = iterate(pair, e.heap());
        if (parts.size() != 2) throw Failure("dict and namespace need pairs of key and value");
        e.heap().set(into, parts[0], parts[1]);
      }
    }
  }
  for (const auto& [name, value] : args.named) e.heap().set(into, e.heap().text(std::string(name)), value);
}

Value dict(Evaluator& e, const Value&, const Args& args) {
  Dict* made = e.heap().dict();
  fill(e, *made, args);
  return Value::of(made);
}

Value name_space(Evaluator& e, const Value&, const Args& args) {
  Namespace* made = e.heap().name_space();
  fill(e, made->attributes, args);
  return Value::of(made);
}

// Gives nothing at its first call, the separator ever after.
Value next_separator(Evaluator& e, const Value& self, const Args& args) {
  const Params none("a joiner", args, {});
  std::vector<Value>& state = self.sequence()->items;
  if (state.size() > 1) return state[0];
  e.heap().append(*self.sequence(), Value::boolean(true));
  return e.heap().text("");
}

Value joiner(Evaluator& e, const Value&, const Args& args) {
  const Params p("joiner", args, {"sep"});
  Callable made;
  made.name = "joiner";
  made.native = next_separator;
  made.self = e.heap().list({p[0] ? *p[0] : e.heap().text(", ")});
  return Value::of(e.heap().callable(made));
}

Value raise_exception(Evaluator& e, const Value&, const Args& args) {
  const Params p("raise_exception", args, {"message"}, 1);
  throw RaisedByTemplate(to_text(*p[0], e.budget()));
}

Value strftime_now(Evaluator& e, const Value&, const Args& args) {
  const Params p("strftime_now", args, {"format"}, 1);
  const std::string& format = p.text(0, "");
  if (format.empty()) return e.heap().text("");
  std::array<char, 1024> buffer{};
  const std::tm now = e.now();
  // A mark in front: strftime's zero then always means that the buffer was too small.
  const std::size_t n = std::strftime(buffer.data(), buffer.size(), ("." + format).c_str(), &now);
  if (n == 0) throw Failure("strftime_now: the text is over 1 KiB");
  return e.heap().text(std::string(buffer.data() + 1, n - 1));
}

}  // namespace

const NativeTable& functions() {
  static const NativeTable table = {
      {"range", range},
      {"dict", dict},
      {"namespace", name_space},
      {"joiner", joiner},
      {"raise_exception", raise_exception},
      {"strftime_now", strftime_now},
  };
  return table;
}

}  // namespace hearth::jinja
