// The tests that may follow `is` in a template.
#include "server/jinja/builtins.h"
#include "server/jinja/evaluator.h"
#include "server/jinja/format.h"
#include "server/jinja/operators.h"
#include "server/jinja/text.h"

namespace hearth::jinja {
namespace {

template <bool (*Predicate)(const Value&)>
Value predicate(Evaluator&, const Value& self, const Args& args) {
  const Params none("this test", args, {});
  return Value::boolean(Predicate(self));
}

bool is_defined(const Value& v) { return !v.is_undefined(); }
bool is_undefined(const Value& v) { return v.is_undefined(); }
bool is_none(const Value& v) { return v.is_none(); }
bool is_boolean(const Value& v) { return v.is_bool(); }
bool is_true(const Value& v) { return v.is_bool() && v.boolean(); }
bool is_false(const Value& v) { return v.is_bool() && !v.boolean(); }
bool is_integer(const Value& v) { return v.is_int(); }
bool is_float(const Value& v) { return v.is_real(); }
bool is_number(const Value& v) { return v.is_number(); }
bool is_string(const Value& v) { return v.is_text(); }
bool is_mapping(const Value& v) { return v.dict() != nullptr; }
bool is_sequence(const Value& v) {
  return v.is_text() || v.dict() || v.is_undefined() || (v.sequence() && v.sequence()->indexable());
}
bool is_callable(const Value& v) { return v.callable() || v.loop() || v.is_undefined(); }
bool is_filter(const Value& v) { return v.is_text() && find_filter(v.text()); }
bool is_test(const Value& v) { return v.is_text() && find_test(v.text()); }
bool is_escaped(const Value&) {
  return false;  // this interpreter never marks text as safe HTML
}

bool leaves(Evaluator& e, const Value& self, const Value& divisor, double wanted) {
  const Value rest = arithmetic(Operator::modulo, self, divisor, e.heap());
  return rest.is_number() && rest.number() == wanted;
}

Value even(Evaluator& e, const Value& self, const Args& args) {
  const Params none("even", args, {});
  return Value::boolean(leaves(e, self, Value::integer(2), 0));
}

Value odd(Evaluator& e, const Value& self, const Args& args) {
  const Params none("odd", args, {});
  return Value::boolean(leaves(e, self, Value::integer(2), 1));
}

Value divisible_by(Evaluator& e, const Value& self, const Args& args) {
  const Params p("divisibleby", args, {"num"}, 1);
  return Value::boolean(leaves(e, self, *p[0], 0));
}

// Implements str.isupper() and str.islower(): true if at least one letter has the wanted case and no letter
// has the opposite case.
template <bool (*Wanted)(char32_t), bool (*Unwanted)(char32_t)>
Value has_case(Evaluator& e, const Value& self, const Args& args) {
  const Params none("this test", args, {});
  const std::string text = to_text(self, e.budget());
  bool has_wanted = false;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    if (Unwanted(c)) return Value::boolean(false);
    has_wanted = has_wanted || Wanted(c);
  }
  return Value::boolean(has_wanted);
}

template <Comparison Op>
Value compared(Evaluator& e, const Value& self, const Args& args) {
  const Params p("a comparison test", args, {"other"}, 1);
  return Value::boolean(compare(Op, self, *p[0], e.budget()));
}

Value same_as(Evaluator&, const Value& self, const Args& args) {
  const Params p("sameas", args, {"other"}, 1);
  return Value::boolean(same(self, *p[0]));
}

}  // namespace

const NativeTable& tests() {
  static const NativeTable table = {
      {"defined", predicate<is_defined>},
      {"undefined", predicate<is_undefined>},
      {"none", predicate<is_none>},
      {"boolean", predicate<is_boolean>},
      {"true", predicate<is_true>},
      {"false", predicate<is_false>},
      {"integer", predicate<is_integer>},
      {"float", predicate<is_float>},
      {"number", predicate<is_number>},
      {"string", predicate<is_string>},
      {"mapping", predicate<is_mapping>},
      {"sequence", predicate<is_sequence>},
      {"iterable", predicate<is_iterable>},
      {"callable", predicate<is_callable>},
      {"filter", predicate<is_filter>},
      {"test", predicate<is_test>},
      {"escaped", predicate<is_escaped>},
      {"even", even},
      {"odd", odd},
      {"divisibleby", divisible_by},
      {"upper", has_case<is_upper, is_lower>},
      {"lower", has_case<is_lower, is_upper>},
      {"sameas", same_as},
      {"in", compared<Comparison::in>},
      {"eq", compared<Comparison::equal>},
      {"==", compared<Comparison::equal>},
      {"equalto", compared<Comparison::equal>},
      {"ne", compared<Comparison::not_equal>},
      {"!=", compared<Comparison::not_equal>},
      {"lt", compared<Comparison::less>},
      {"<", compared<Comparison::less>},
      {"lessthan", compared<Comparison::less>},
      {"le", compared<Comparison::less_equal>},
      {"<=", compared<Comparison::less_equal>},
      {"gt", compared<Comparison::greater>},
      {">", compared<Comparison::greater>},
      {"greaterthan", compared<Comparison::greater>},
      {"ge", compared<Comparison::greater_equal>},
      {">=", compared<Comparison::greater_equal>},
  };
  return table;
}

}  // namespace hearth::jinja
