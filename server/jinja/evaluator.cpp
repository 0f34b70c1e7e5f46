// Statements: control flow, assignment, macros, output.
#include "server/jinja/evaluator.h"

#include <algorithm>

#include "server/jinja/operators.h"
#include "server/jinja/text_format.h"

namespace hearth::jinja {
namespace {

// Makes `scope` the current one until the end of the block.
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
  // As Jinja has it, `else` runs unless some turn came to its end: also when each was left by break or
  // continue.
  bool has_ended_turn = false;
  for (; loop->index0 < items->items.size(); ++loop->index0) {
    // A new scope for each turn: what a turn sets is gone in the next, unless a namespace holds it.
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
    const Value held = eval(*value);  // in the outer scope, as Jinja does
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

}  // namespace hearth::jinja
