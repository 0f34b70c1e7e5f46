// The syntax tree of a template: expressions and statements, with one struct per syntactic form. parse()
// builds the tree.
//
// The tree is immutable after parse(), so any number of threads may render it at the same time.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace hearth::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;
struct Stmt;
using Body = std::vector<Stmt>;

struct Literal {
  std::variant<std::monostate, bool, std::int64_t, double, std::string> value;  // std::monostate: None
};
struct Name {
  std::string name;
};
struct ListExpr {
  bool is_tuple;
  std::vector<ExprPtr> items;
};
struct DictExpr {
  std::vector<std::pair<ExprPtr, ExprPtr>> entries;
};
enum class Operator { add, subtract, multiply, divide, floor_divide, modulo, power };
struct Binary {
  Operator op;
  ExprPtr left, right;
};
struct Unary {
  enum class Op { negate, plus, logical_not } op;
  ExprPtr operand;
};
struct Logic {
  bool is_and;  // true for `and`, false for `or`
  ExprPtr left, right;
};
struct Concat {  // a ~ b ~ c
  std::vector<ExprPtr> items;
};
enum class Comparison { equal, not_equal, less, less_equal, greater, greater_equal, in, not_in };
struct Compare {  // a < b <= c is true if a < b and b <= c
  ExprPtr first;
  std::vector<std::pair<Comparison, ExprPtr>> rest;
};
struct Conditional {                    // value if condition else otherwise
  ExprPtr condition, value, otherwise;  // otherwise may be null
};
struct Attribute {
  ExprPtr object;
  std::string name;
};
struct Subscript {
  ExprPtr object, key;
};
struct Slice {
  ExprPtr object, start, stop, step;  // the last three may be null
};
struct Arguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star, double_star;  // *args and **kwargs; may be null
};
struct Call {
  ExprPtr callee;
  Arguments arguments;
};
struct Filter {
  ExprPtr operand;
  std::string name;
  Arguments arguments;
};
struct Test {
  ExprPtr operand;
  std::string name;
  Arguments arguments;
};
// The operand of a filter block or of `{% set x | filter %}`. Its value is the text that the block prints.
struct BlockText {};

struct Expr {
  int line;
  // Depth of the tree below this node. The parser limits it, so that no template can exhaust the stack.
  int depth;
  std::variant<Literal, Name, ListExpr, DictExpr, Binary, Unary, Logic, Concat, Compare, Conditional,
               Attribute, Subscript, Slice, Call, Filter, Test, BlockText>
      node;
};

// The left side of an assignment: a name, namespace.attribute, or several of these.
struct Target {
  std::string name;
  std::string attribute;      // empty unless the target is namespace.attribute
  std::vector<Target> parts;  // the targets of `a, b`; if set, name and attribute are empty
  bool is_tuple = false;
};

struct Data {
  std::string text;
};
struct Output {
  ExprPtr value;
};
struct For {
  Target target;
  ExprPtr items, filter;  // filter may be null
  Body body, otherwise;
};
struct If {
  std::vector<std::pair<ExprPtr, Body>> branches;  // if, elif, ...
  Body otherwise;
};
struct Set {
  Target target;
  ExprPtr value;
};
struct SetBlock {
  Target target;
  ExprPtr value;  // a filter expression whose innermost operand is BlockText
  Body body;
};
struct MacroBody {
  std::string name;
  // Names and default values of the parameters. A default value may be null.
  std::vector<std::pair<std::string, ExprPtr>> parameters;
  bool uses_caller = false, uses_varargs = false, uses_kwargs = false;
  Body body;
};
struct Macro {
  std::unique_ptr<MacroBody> macro;
};
struct CallBlock {
  std::unique_ptr<MacroBody> caller;
  ExprPtr callee;
  Arguments arguments;
};
struct FilterBlock {
  ExprPtr value;  // a filter expression whose innermost operand is BlockText
  Body body;
};
struct With {  // also used for {% generation %}, which sets nothing
  std::vector<std::pair<Target, ExprPtr>> values;
  Body body;
};
struct Do {
  ExprPtr value;
};
struct Break {};
struct Continue {};

struct Stmt {
  int line;
  std::variant<Data, Output, For, If, Set, SetBlock, Macro, CallBlock, FilterBlock, With, Do, Break, Continue>
      node;
};

// Parses a whole template. Throws TemplateError if the source is not a template in the supported language.
Body parse(std::string_view source);

}  // namespace hearth::jinja
