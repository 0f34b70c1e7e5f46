// Renders one parsed template once: evaluates the syntax tree, owns the values that the evaluation creates,
// and enforces the limits on its cost.
//
// Each rendering has its own Evaluator, on the thread that renders. Built-ins get a reference to the
// Evaluator.
#pragma once
#include <ctime>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "server/jinja/ast.h"
#include "server/jinja/builtins.h"
#include "server/jinja/value.h"

namespace hearth::jinja {

// Returns the local time that strftime_now formats.
using Clock = std::function<std::tm()>;

class Evaluator {
 public:
  // clock must outlive the evaluator.
  Evaluator(const Limits& limits, const Clock& clock) : budget_(limits), heap_(budget_), clock_(clock) {}

  // Renders `body`. globals: the names that are defined at its start. Throws TemplateError.
  std::string render(const Body& body, Scope* globals);

  // Functions for built-ins. All of them except now() may throw Failure.
  Heap& heap() { return heap_; }
  Budget& budget() { return budget_; }
  std::tm now() const { return clock_(); }
  Value call(const Value& callee, const Args& args);
  Value apply_filter(std::string_view name, const Value& operand, const Args& args);
  bool apply_test(std::string_view name, const Value& operand, const Args& args);
  // Return object.name and object[key], or an undefined value if the object has no such element.
  Value attribute(const Value& object, std::string_view name);
  Value item(const Value& object, const Value& key);

 private:
  enum class Flow { next, break_loop, continue_loop };

  Flow run(const Body& body);
  Flow run_node(const Data& node);
  Flow run_node(const Output& node);
  Flow run_node(const For& node);
  Flow run_node(const If& node);
  Flow run_node(const Set& node);
  Flow run_node(const SetBlock& node);
  Flow run_node(const Macro& node);
  Flow run_node(const CallBlock& node);
  Flow run_node(const FilterBlock& node);
  Flow run_node(const With& node);
  Flow run_node(const Do& node);
  Flow run_node(const Break&) { return Flow::break_loop; }
  Flow run_node(const Continue&) { return Flow::continue_loop; }

  void emit(std::string_view text);
  // Runs `body` in a new scope and returns the text that it prints.
  Value capture(const Body& body);
  // Returns the value of the expression `value`, in which BlockText is the text that `body` prints.
  Value filter_block_text(const Body& body, const Expr& value);
  void assign(const Target& target, const Value& value);
  std::vector<Value> loop_items(const For& node);
  Value call_macro(const Callable& macro, const Args& args);
  void bind_parameters(const MacroBody& macro, const Args& args, Scope& scope);

  Value eval(const Expr& expr);
  Value eval_optional(const ExprPtr& expr) { return expr ? eval(*expr) : Value(); }
  Value eval_node(const Literal& node);
  Value eval_node(const Name& node);
  Value eval_node(const ListExpr& node);
  Value eval_node(const DictExpr& node);
  Value eval_node(const Binary& node);
  Value eval_node(const Unary& node);
  Value eval_node(const Logic& node);
  Value eval_node(const Concat& node);
  Value eval_node(const Compare& node);
  Value eval_node(const Conditional& node);
  Value eval_node(const Attribute& node);
  Value eval_node(const Subscript& node);
  Value eval_node(const Slice& node);
  Value eval_node(const Call& node);
  Value eval_node(const Filter& node);
  Value eval_node(const Test& node);
  Value eval_node(const BlockText& node);
  Args eval_arguments(const Arguments& arguments);
  std::optional<Value> loop_attribute(const Loop& loop, std::string_view name);
  std::optional<Value> find_attribute(const Value& object, std::string_view name);

  Budget budget_;
  Heap heap_;
  const Clock& clock_;
  Scope* scope_ = nullptr;
  std::string out_;   // output so far of the innermost template, macro or captured block
  Value block_text_;  // the current value of BlockText
  int line_ = 1;      // line of the node that is being evaluated, for error messages
};

}  // namespace hearth::jinja
