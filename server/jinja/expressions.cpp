// Expressions of the evaluator: literals, names, operators, attribute and item access, calls, filters and
// tests.
#include <algorithm>

#include "server/jinja/builtins.h"
#include "server/jinja/evaluator.h"
#include "server/jinja/operators.h"
#include "server/jinja/string_literal.h"
#include "server/jinja/text_format.h"

namespace hearth::jinja {
namespace {

// The type as Jinja's messages name it: 'dict object', 'None'.
std::string object_name(const Value& object) {
  if (object.is_none()) return "None";
  if (object.name_space()) return "jinja2.utils.Namespace object";
  return object.type_name() + " object";
}

}  // namespace

Value Evaluator::eval(const Expr& expr) {
  const Level level(budget_);
  line_ = expr.line;
  budget_.steps(1);
  return std::visit([this](const auto& node) { return eval_node(node); }, expr.node);
}

Value Evaluator::eval_node(const Literal& node) {
  if (const std::string* text = std::get_if<std::string>(&node.value)) return Value::text(text);
  if (const std::int64_t* integer = std::get_if<std::int64_t>(&node.value)) return Value::integer(*integer);
  if (const double* real = std::get_if<double>(&node.value)) return Value::real(*real);
  if (const bool* boolean = std::get_if<bool>(&node.value)) return Value::boolean(*boolean);
  return Value::none();
}

Value Evaluator::eval_node(const Name& node) {
  if (const Value* value = scope_->find(node.name, budget_)) return *value;
  const NativeTable& known = functions();
  const auto at = known.find(node.name);
  if (at == known.end()) return heap_.undefined(quote(node.name) + " is undefined");
  Callable function;
  function.name = at->first;
  function.native = at->second;
  return Value::of(heap_.callable(function));
}

Value Evaluator::eval_node(const ListExpr& node) {
  std::vector<Value> items;
  items.reserve(node.items.size());
  for (const ExprPtr& item : node.items) items.push_back(eval(*item));
  return Value::of(
      heap_.sequence(node.is_tuple ? Sequence::Kind::tuple : Sequence::Kind::list, std::move(items)));
}

Value Evaluator::eval_node(const DictExpr& node) {
  Dict* dict = heap_.dict();
  for (const auto& [key, value] : node.entries) {
    const Value k = eval(*key);
    heap_.set(*dict, k, eval(*value));
  }
  return Value::of(dict);
}

Value Evaluator::eval_node(const Binary& node) {
  const Value left = eval(*node.left);
  return arithmetic(node.op, left, eval(*node.right), heap_);
}

Value Evaluator::eval_node(const Unary& node) {
  const Value operand = eval(*node.operand);
  switch (node.op) {
    case Unary::Op::logical_not:
      return Value::boolean(!truthy(operand));
    case Unary::Op::negate:
      return negate(operand);
    case Unary::Op::plus:
      return negate(negate(operand));
  }
  return {};
}

Value Evaluator::eval_node(const Logic& node) {
  const Value left = eval(*node.left);
  return truthy(left) == node.is_and ? eval(*node.right) : left;
}

Value Evaluator::eval_node(const Concat& node) {
  std::string out;
  for (const ExprPtr& item : node.items) {
    const std::string piece = to_text(eval(*item), budget_);
    budget_.memory(piece.size());
    out += piece;
  }
  return heap_.text(std::move(out));
}

Value Evaluator::eval_node(const Compare& node) {
  Value left = eval(*node.first);
  for (const auto& [op, operand] : node.rest) {
    const Value right = eval(*operand);
    if (!compare(op, left, right, budget_)) return Value::boolean(false);
    left = right;
  }
  return Value::boolean(true);
}

Value Evaluator::eval_node(const Conditional& node) {
  if (truthy(eval(*node.condition))) return eval(*node.value);
  if (node.otherwise) return eval(*node.otherwise);
  return heap_.undefined("the inline if-expression evaluated to false and no else section was defined");
}

Value Evaluator::eval_node(const Attribute& node) { return attribute(eval(*node.object), node.name); }

Value Evaluator::eval_node(const Subscript& node) {
  const Value object = eval(*node.object);
  return item(object, eval(*node.key));
}

Value Evaluator::eval_node(const Slice& node) {
  const Value object = eval(*node.object);
  const Value start = eval_optional(node.start);
  const Value stop = eval_optional(node.stop);
  return slice(object, start, stop, eval_optional(node.step), heap_);
}

Value Evaluator::eval_node(const Call& node) {
  const Value callee = eval(*node.callee);
  return call(callee, eval_arguments(node.arguments));
}

Value Evaluator::eval_node(const Filter& node) {
  const Value operand = eval(*node.operand);
  return apply_filter(node.name, operand, eval_arguments(node.arguments));
}

Value Evaluator::eval_node(const Test& node) {
  const Value operand = eval(*node.operand);
  return Value::boolean(apply_test(node.name, operand, eval_arguments(node.arguments)));
}

Value Evaluator::eval_node(const BlockText&) { return block_text_; }

Args Evaluator::eval_arguments(const Arguments& arguments) {
  Args args;
  for (const ExprPtr& value : arguments.positional) args.positional.push_back(eval(*value));
  if (arguments.star) {
    for (const Value& value : iterate(eval(*arguments.star), heap_)) args.positional.push_back(value);
  }
  for (const auto& [name, value] : arguments.named) args.named.emplace_back(name, eval(*value));
  if (arguments.double_star) {
    const Value more = eval(*arguments.double_star);
    if (!more.dict()) throw Failure("the argument after ** must be a mapping, not " + more.type_name());
    for (const auto& [key, value] : more.dict()->entries) {
      if (!key.is_text()) throw Failure("keywords must be strings");
      args.named.emplace_back(key.text(), value);
    }
  }
  return args;
}

Value Evaluator::apply_filter(std::string_view name, const Value& operand, const Args& args) {
  const Native filter = find_filter(name);
  if (!filter) throw Failure("no filter named " + quote(name));
  budget_.text(operand.is_text() ? operand.text().size() : 0);
  return filter(*this, operand, args);
}

bool Evaluator::apply_test(std::string_view name, const Value& operand, const Args& args) {
  const Native test = find_test(name);
  if (!test) throw Failure("no test named " + quote(name));
  budget_.text(operand.is_text() ? operand.text().size() : 0);
  return truthy(test(*this, operand, args));
}

std::optional<Value> Evaluator::loop_attribute(const Loop& loop, std::string_view name) {
  const std::size_t n = loop.items->items.size();
  const auto integer = [](std::size_t i) { return Value::integer(static_cast<std::int64_t>(i)); };
  if (name == "index") return integer(loop.index0 + 1);
  if (name == "index0") return integer(loop.index0);
  if (name == "revindex") return integer(n - loop.index0);
  if (name == "revindex0") return integer(n - loop.index0 - 1);
  if (name == "first") return Value::boolean(loop.index0 == 0);
  if (name == "last") return Value::boolean(loop.index0 + 1 == n);
  if (name == "length") return integer(n);
  if (name == "depth") return integer(1);  // recursive loops are not supported
  if (name == "depth0") return integer(0);
  if (name == "previtem") {
    return loop.index0 > 0 ? loop.items->items[loop.index0 - 1]
                           : heap_.undefined("there is no previous item");
  }
  if (name == "nextitem") {
    return loop.index0 + 1 < n ? loop.items->items[loop.index0 + 1]
                               : heap_.undefined("there is no next item");
  }
  return std::nullopt;
}

std::optional<Value> Evaluator::find_attribute(const Value& object, std::string_view name) {
  if (const Namespace* space = object.name_space()) {
    const Value* value = space->attributes.find(name);
    return value ? std::optional<Value>(*value) : std::nullopt;
  }
  if (const Loop* loop = object.loop()) {
    if (std::optional<Value> value = loop_attribute(*loop, name)) return value;
  }
  if (const Callable* callable = object.callable(); callable && name == "name") {
    return heap_.text(std::string(callable->name));
  }
  const Native native = find_method(object, name);
  if (!native) return std::nullopt;
  Callable method;
  method.name = name;
  method.native = native;
  method.self = object;
  return Value::of(heap_.callable(method));
}

Value Evaluator::attribute(const Value& object, std::string_view name) {
  if (object.is_undefined()) fail_undefined(object);
  budget_.text(name.size());
  if (std::optional<Value> found = find_attribute(object, name)) return *found;
  if (const Dict* dict = object.dict()) {
    if (const Value* value = dict->find(name)) return *value;
  }
  return heap_.undefined(quote(object_name(object)) + " has no attribute " + quote(name));
}

Value Evaluator::item(const Value& object, const Value& key) {
  if (std::optional<Value> found = element(object, key, heap_)) return *found;
  if (!key.is_text()) return heap_.undefined(object_name(object) + " has no element " + repr(key, budget_));
  if (std::optional<Value> found = find_attribute(object, key.text())) return *found;
  return heap_.undefined(quote(object_name(object)) + " has no attribute " + quote(key.text()));
}

}  // namespace hearth::jinja
