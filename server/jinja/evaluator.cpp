// Implements statements (control flow, assignment, macros, output), then expressions (literals, names,
// operators, attributes and items, calls, filters and tests).
#include "server/jinja/evaluator.h"

#include <algorithm>

#include "server/jinja/builtins.h"
#include "server/jinja/format.h"
#include "server/jinja/operators.h"

namespace hearth::jinja {
namespace {

// Makes `scope` the current scope while this object exists.
class Entered {
 public:
  Entered(Scope*& current, Scope* scope) : current_(current), before_(std::exchange(current, scope)) {}
  ~Entered() { current_ = before_; }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;

 private:
  Scope*& current_;
  Scope* before_;
};

}  // namespace

std::string Evaluator::render(const Body& body, Scope* globals) {
  try {
    scope_ = heap_.scope(globals);
    run(body);
    return std::move(out_);
  } catch (const RaisedByTemplate& raised) {
    throw TemplateError(line_, raised);
  } catch (const Failure& failure) {
    throw TemplateError(line_, failure.what());
  }
}

Evaluator::Flow Evaluator::run(const Body& body) {
  const Level level(budget_);
  for (const Stmt& statement : body) {
    line_ = statement.line;
    budget_.steps(1);
    const Flow flow = std::visit([this](const auto& node) { return run_node(node); }, statement.node);
    if (flow != Flow::next) return flow;
  }
  return Flow::next;
}

void Evaluator::emit(std::string_view text) {
  budget_.memory(text.size());
  budget_.text(text.size());
  out_ += text;
}

Evaluator::Flow Evaluator::run_node(const Data& node) {
  emit(node.text);
  return Flow::next;
}

Evaluator::Flow Evaluator::run_node(const Output& node) {
  const Value value = eval(*node.value);
  if (value.is_text()) {
    emit(value.text());
  } else {
    emit(to_text(value, budget_));
  }
  return Flow::next;
}

std::vector<Value> Evaluator::loop_items(const For& node) {
  std::vector<Value> items = iterate(eval(*node.items), heap_);
  if (!node.filter) return items;
  const Entered inner(scope_, heap_.scope(scope_));
  std::vector<Value> kept;
  for (const Value& item : items) {
    assign(node.target, item);
    if (truthy(eval(*node.filter))) kept.push_back(item);
  }
  return kept;
}

Evaluator::Flow Evaluator::run_node(const For& node) {
  const Sequence* items = heap_.sequence(Sequence::Kind::list, loop_items(node));
  Loop* loop = heap_.loop(Loop(items));
  // As in Jinja, `else` runs unless an iteration reached the end of the body. An iteration that ends with
  // break or continue does not count.
  bool has_ended_turn = false;
  for (; loop->index0 < items->items.size(); ++loop->index0) {
    // Each iteration has a new scope, so a variable that one iteration sets is not visible in the next.
    // Attributes of a namespace stay visible.
    const Entered inner(scope_, heap_.scope(scope_));
    scope_->set("loop", Value::of(loop), budget_);
    assign(node.target, items->items[loop->index0]);
    const Flow flow = run(node.body);
    has_ended_turn = has_ended_turn || flow == Flow::next;
    if (flow == Flow::break_loop) break;
  }
  if (has_ended_turn) return Flow::next;
  const Entered inner(scope_, heap_.scope(scope_));
  return run(node.otherwise);
}

Evaluator::Flow Evaluator::run_node(const If& node) {
  for (const auto& [condition, body] : node.branches) {
    if (truthy(eval(*condition))) return run(body);
  }
  return run(node.otherwise);
}

void Evaluator::assign(const Target& target, const Value& value) {
  if (target.is_tuple) {
    const std::vector<Value> values = iterate(value, heap_);
    if (values.size() != target.parts.size()) {
      throw Failure(std::string(values.size() < target.parts.size() ? "not enough" : "too many") +
                    " values to unpack (expected " + std::to_string(target.parts.size()) + ", got " +
                    std::to_string(values.size()) + ")");
    }
    for (std::size_t i = 0; i < values.size(); ++i) assign(target.parts[i], values[i]);
    return;
  }
  if (target.attribute.empty()) {
    scope_->set(target.name, value, budget_);
    return;
  }
  const Value* object = scope_->find(target.name, budget_);
  if (!object || !object->name_space()) throw Failure("cannot assign attribute on non-namespace object");
  heap_.set(object->name_space()->attributes, Value::text(&target.attribute), value);
}

Evaluator::Flow Evaluator::run_node(const Set& node) {
  assign(node.target, eval(*node.value));
  return Flow::next;
}

Value Evaluator::capture(const Body& body) {
  const Entered inner(scope_, heap_.scope(scope_));
  std::string before = std::exchange(out_, {});
  run(body);
  return heap_.text(std::exchange(out_, std::move(before)));
}

Value Evaluator::filter_block_text(const Body& body, const Expr& value) {
  const Value text = capture(body);
  const Value before = std::exchange(block_text_, text);
  const Value filtered = eval(value);
  block_text_ = before;
  return filtered;
}

Evaluator::Flow Evaluator::run_node(const SetBlock& node) {
  assign(node.target, filter_block_text(node.body, *node.value));
  return Flow::next;
}

Evaluator::Flow Evaluator::run_node(const FilterBlock& node) {
  emit(to_text(filter_block_text(node.body, *node.value), budget_));
  return Flow::next;
}

Evaluator::Flow Evaluator::run_node(const Macro& node) {
  Callable macro;
  macro.name = node.macro->name;
  macro.macro = node.macro.get();
  macro.closure = scope_;
  scope_->set(macro.name, Value::of(heap_.callable(macro)), budget_);
  return Flow::next;
}

Evaluator::Flow Evaluator::run_node(const CallBlock& node) {
  Callable caller;
  caller.name = "caller";
  caller.macro = node.caller.get();
  caller.closure = scope_;
  const Value callee = eval(*node.callee);
  Args args = eval_arguments(node.arguments);
  args.named.emplace_back("caller", Value::of(heap_.callable(caller)));
  emit(to_text(call(callee, args), budget_));
  return Flow::next;
}

Evaluator::Flow Evaluator::run_node(const With& node) {
  Scope* inner_scope = heap_.scope(scope_);
  for (const auto& [target, value] : node.values) {
    const Value held = eval(*value);  // evaluated in the outer scope, as in Jinja
    const Entered inner(scope_, inner_scope);
    assign(target, held);
  }
  const Entered inner(scope_, inner_scope);
  return run(node.body);
}

Evaluator::Flow Evaluator::run_node(const Do& node) {
  eval(*node.value);
  return Flow::next;
}

Value Evaluator::call(const Value& callee, const Args& args) {
  if (callee.is_undefined()) fail_undefined(callee);
  const Callable* callable = callee.callable();
  if (!callable) throw Failure("'" + callee.type_name() + "' object is not callable");
  budget_.steps(1 + args.positional.size() + args.named.size());
  return callable->native ? callable->native(*this, callable->self, args) : call_macro(*callable, args);
}

Value Evaluator::call_macro(const Callable& macro, const Args& args) {
  const Level level(budget_);
  const int line = line_;
  const Entered inner(scope_, heap_.scope(macro.closure));
  bind_parameters(*macro.macro, args, *scope_);
  std::string before = std::exchange(out_, {});
  run(macro.macro->body);
  line_ = line;
  return heap_.text(std::exchange(out_, std::move(before)));
}

void Evaluator::bind_parameters(const MacroBody& macro, const Args& args, Scope& scope) {
  const std::size_t n = macro.parameters.size();
  const auto is_parameter = [&](std::string_view name) {
    return std::any_of(macro.parameters.begin(), macro.parameters.end(),
                       [&](const auto& parameter) { return parameter.first == name; });
  };
  for (std::size_t i = 0; i < n; ++i) {
    const auto& [name, otherwise] = macro.parameters[i];
    const Value* named = args.find(name);
    if (i < args.positional.size()) {
      if (named) throw Failure("macro '" + macro.name + "' got two values for '" + name + "'");
      scope.set(name, args.positional[i], budget_);
    } else if (named) {
      scope.set(name, *named, budget_);
    } else if (otherwise) {
      scope.set(name, eval(*otherwise), budget_);
    } else {
      scope.set(name, heap_.undefined("parameter '" + name + "' was not provided"), budget_);
    }
  }
  Dict* kwargs = heap_.dict();
  for (const auto& [name, value] : args.named) {
    if (is_parameter(name)) continue;
    if (name == "caller" && macro.uses_caller) continue;
    if (!macro.uses_kwargs) {
      throw Failure("macro '" + macro.name + "' takes no keyword argument '" + std::string(name) + "'");
    }
    heap_.set(*kwargs, heap_.text(std::string(name)), value);
  }
  if (macro.uses_kwargs) scope.set("kwargs", Value::of(kwargs), budget_);
  if (macro.uses_caller && !is_parameter("caller")) {
    const Value* caller = args.find("caller");
    scope.set("caller", caller ? *caller : heap_.undefined("No caller defined"), budget_);
  }
  if (args.positional.size() > n && !macro.uses_varargs) {
    throw Failure("macro '" + macro.name + "' takes not more than " + std::to_string(n) + " argument(s)");
  }
  if (macro.uses_varargs) {
    std::vector<Value> rest;
    if (args.positional.size() > n) {
      rest.assign(args.positional.begin() + static_cast<std::ptrdiff_t>(n), args.positional.end());
    }
    scope.set("varargs", heap_.tuple(std::move(rest)), budget_);
  }
}

// Expressions.

namespace {

// Returns the name of a value's type in Jinja's error messages: "dict object", "None".
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
