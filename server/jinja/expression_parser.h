// Parses expressions with Jinja's precedence, lowest first: if-else, or, and, not, comparisons, + -, ~, * /
// // %, **, unary, then postfix . [] () and filters and tests. Used by the statement parser, once per
// template at load.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/jinja/ast.h"
#include "server/jinja/token_stream.h"

namespace hearth::jinja {

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  // Every parse method throws TemplateError.
  ExprPtr expression(bool with_conditional = true);
  // An expression, or a tuple where commas follow. `stop` is a name that ends it, such as "recursive".
  ExprPtr tuple(bool with_conditional = true, std::string_view stop = {});
  // `| name(args) | ...` applied to operand; first_is_bare: the first filter has no '|' before it.
  ExprPtr filters(ExprPtr operand, bool first_is_bare);
  // Left side of set (with_attribute), for and with.
  Target target(bool with_attribute, std::string_view stop = {});
  ExprPtr make(int line, decltype(Expr::node) node) const;

  // Macros around the current place: told which of caller, varargs and kwargs their bodies mention.
  std::vector<MacroBody*> open_macros;

 private:
  ExprPtr conditional();
  ExprPtr logical_or();
  ExprPtr logical_and();
  ExprPtr logical_not();
  ExprPtr comparison();
  ExprPtr sum();
  ExprPtr concatenation();
  ExprPtr product();
  ExprPtr power();
  ExprPtr unary(bool with_filters = true);
  ExprPtr primary();
  ExprPtr name_or_constant();
  ExprPtr string();
  ExprPtr parenthesis();
  ExprPtr list();
  ExprPtr dict();
  ExprPtr postfix(ExprPtr operand);
  ExprPtr attribute(ExprPtr operand);
  ExprPtr subscript(ExprPtr operand);
  ExprPtr tests_and_filters(ExprPtr operand);
  ExprPtr test(ExprPtr operand);
  Arguments arguments();
  Target single_target(bool with_attribute);
  // Joins operands with the operators of `ops`, from the left.
  ExprPtr left_associative(ExprPtr (ExpressionParser::*operand)(),
                           std::initializer_list<std::pair<std::string_view, Operator>> ops);

  TokenStream& tokens_;
  int depth_ = 0;  // of this parser's own recursion
};

}  // namespace hearth::jinja
