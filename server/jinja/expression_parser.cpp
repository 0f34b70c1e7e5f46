// The expression parser.
#include "server/jinja/expression_parser.h"

#include <algorithm>

namespace hearth::jinja {
namespace {

// No real template nests a tenth of this. Bounds the stack of parser, evaluator and destructor.
constexpr int kMaxDepth = 150;

bool ends_tuple(const TokenStream& tokens, std::string_view stop) {
  return tokens.is(Token::Type::output_end) || tokens.is(Token::Type::block_end) || tokens.is_op(")") ||
         (!stop.empty() && tokens.is_name(stop));
}

int depth_of(const ExprPtr& child) { return child ? child->depth : 0; }

template <typename Items>
int depth_of_all(const Items& items) {
  int depth = 0;
  for (const ExprPtr& item : items) depth = std::max(depth, depth_of(item));
  return depth;
}

int depth_of(const Arguments& arguments) {
  int depth = std::max(
      {depth_of_all(arguments.positional), depth_of(arguments.star), depth_of(arguments.double_star)});
  for (const auto& [name, value] : arguments.named) depth = std::max(depth, depth_of(value));
  return depth;
}

// Depth of the deepest child, by form.
struct ChildDepth {
  int operator()(const Literal&) const { return 0; }
  int operator()(const Name&) const { return 0; }
  int operator()(const BlockText&) const { return 0; }
  int operator()(const ListExpr& n) const { return depth_of_all(n.items); }
  int operator()(const Concat& n) const { return depth_of_all(n.items); }
  int operator()(const Binary& n) const { return std::max(depth_of(n.left), depth_of(n.right)); }
  int operator()(const Logic& n) const { return std::max(depth_of(n.left), depth_of(n.right)); }
  int operator()(const Unary& n) const { return depth_of(n.operand); }
  int operator()(const Attribute& n) const { return depth_of(n.object); }
  int operator()(const Subscript& n) const { return std::max(depth_of(n.object), depth_of(n.key)); }
  int operator()(const Slice& n) const {
    return std::max({depth_of(n.object), depth_of(n.start), depth_of(n.stop), depth_of(n.step)});
  }
  int operator()(const Conditional& n) const {
    return std::max({depth_of(n.condition), depth_of(n.value), depth_of(n.otherwise)});
  }
  int operator()(const Call& n) const { return std::max(depth_of(n.callee), depth_of(n.arguments)); }
  int operator()(const Filter& n) const { return std::max(depth_of(n.operand), depth_of(n.arguments)); }
  int operator()(const Test& n) const { return std::max(depth_of(n.operand), depth_of(n.arguments)); }
  int operator()(const DictExpr& n) const {
    int depth = 0;
    for (const auto& [key, value] : n.entries) depth = std::max({depth, depth_of(key), depth_of(value)});
    return depth;
  }
  int operator()(const Compare& n) const {
    int depth = depth_of(n.first);
    for (const auto& [op, operand] : n.rest) depth = std::max(depth, depth_of(operand));
    return depth;
  }
};

// Counts the parser's own recursion for as long as it lives.
class Descent {
 public:
  Descent(int& depth, const TokenStream& tokens) : depth_(depth) {
    if (depth_ >= kMaxDepth) tokens.fail("the expression nests too deeply");
    ++depth_;
  }
  ~Descent() { --depth_; }
  Descent(const Descent&) = delete;
  Descent& operator=(const Descent&) = delete;

 private:
  int& depth_;
};

}  // namespace

ExprPtr ExpressionParser::make(int line, decltype(Expr::node) node) const {
  const int depth = 1 + std::visit(ChildDepth{}, node);
  if (depth > kMaxDepth) throw TemplateError(line, "the expression nests too deeply");
  return std::make_unique<Expr>(Expr{line, depth, std::move(node)});
}

ExprPtr ExpressionParser::expression(bool with_conditional) {
  const Descent descent(depth_, tokens_);
  return with_conditional ? conditional() : logical_or();
}

ExprPtr ExpressionParser::tuple(bool with_conditional, std::string_view stop) {
  const int line = tokens_.line();
  std::vector<ExprPtr> items;
  bool has_comma = false;
  while (!ends_tuple(tokens_, stop)) {
    items.push_back(expression(with_conditional));
    if (!tokens_.skip_op(",")) break;
    has_comma = true;
  }
  if (has_comma) return make(line, ListExpr{true, std::move(items)});
  if (items.empty()) tokens_.fail("expected an expression, found " + tokens_.describe());
  return std::move(items.front());
}

ExprPtr ExpressionParser::conditional() {
  const int line = tokens_.line();
  ExprPtr value = logical_or();
  while (tokens_.skip_name("if")) {
    ExprPtr condition = logical_or();
    ExprPtr otherwise;
    if (tokens_.skip_name("else")) otherwise = expression();
    value = make(line, Conditional{std::move(condition), std::move(value), std::move(otherwise)});
  }
  return value;
}

ExprPtr ExpressionParser::logical_or() {
  ExprPtr left = logical_and();
  while (tokens_.is_name("or")) {
    const int line = tokens_.next().line;
    ExprPtr right = logical_and();
    left = make(line, Logic{false, std::move(left), std::move(right)});
  }
  return left;
}

ExprPtr ExpressionParser::logical_and() {
  ExprPtr left = logical_not();
  while (tokens_.is_name("and")) {
    const int line = tokens_.next().line;
    ExprPtr right = logical_not();
    left = make(line, Logic{true, std::move(left), std::move(right)});
  }
  return left;
}

ExprPtr ExpressionParser::logical_not() {
  if (!tokens_.is_name("not")) return comparison();
  const Descent descent(depth_, tokens_);
  const int line = tokens_.next().line;
  return make(line, Unary{Unary::Op::logical_not, logical_not()});
}

ExprPtr ExpressionParser::comparison() {
  static constexpr std::pair<std::string_view, Comparison> kOperators[] = {
      {"==", Comparison::equal},      {"!=", Comparison::not_equal}, {"<", Comparison::less},
      {"<=", Comparison::less_equal}, {">", Comparison::greater},    {">=", Comparison::greater_equal}};
  const int line = tokens_.line();
  ExprPtr first = sum();
  std::vector<std::pair<Comparison, ExprPtr>> rest;
  while (true) {
    const auto op = std::find_if(std::begin(kOperators), std::end(kOperators),
                                 [this](const auto& known) { return tokens_.is_op(known.first); });
    Comparison comparison;
    if (op != std::end(kOperators)) {
      comparison = op->second;
    } else if (tokens_.is_name("in")) {
      comparison = Comparison::in;
    } else if (tokens_.is_name("not") && tokens_.look().type == Token::Type::name &&
               tokens_.look().text == "in") {
      comparison = Comparison::not_in;
      tokens_.next();
    } else {
      break;
    }
    tokens_.next();
    rest.emplace_back(comparison, sum());
  }
  if (rest.empty()) return first;
  return make(line, Compare{std::move(first), std::move(rest)});
}

ExprPtr ExpressionParser::left_associative(ExprPtr (ExpressionParser::*operand)(),
                                           std::initializer_list<std::pair<std::string_view, Operator>> ops) {
  ExprPtr left = (this->*operand)();
  while (true) {
    const auto op =
        std::find_if(ops.begin(), ops.end(), [this](const auto& o) { return tokens_.is_op(o.first); });
    if (op == ops.end()) return left;
    const int line = tokens_.next().line;
    ExprPtr right = (this->*operand)();
    left = make(line, Binary{op->second, std::move(left), std::move(right)});
  }
}

ExprPtr ExpressionParser::sum() {
  return left_associative(&ExpressionParser::concatenation,
                          {{"+", Operator::add}, {"-", Operator::subtract}});
}

ExprPtr ExpressionParser::concatenation() {
  const int line = tokens_.line();
  ExprPtr first = product();
  if (!tokens_.is_op("~")) return first;
  Concat concat;
  concat.items.push_back(std::move(first));
  while (tokens_.skip_op("~")) concat.items.push_back(product());
  return make(line, std::move(concat));
}

ExprPtr ExpressionParser::product() {
  return left_associative(&ExpressionParser::power, {{"*", Operator::multiply},
                                                     {"/", Operator::divide},
                                                     {"//", Operator::floor_divide},
                                                     {"%", Operator::modulo}});
}

ExprPtr ExpressionParser::power() {
  ExprPtr left = unary();
  while (tokens_.is_op("**")) {
    const int line = tokens_.next().line;
    ExprPtr right = unary();
    left = make(line, Binary{Operator::power, std::move(left), std::move(right)});
  }
  return left;
}

ExprPtr ExpressionParser::unary(bool with_filters) {
  const int line = tokens_.line();
  ExprPtr operand;
  if (tokens_.is_op("-") || tokens_.is_op("+")) {
    const Descent descent(depth_, tokens_);
    const Unary::Op op = tokens_.next().text == "-" ? Unary::Op::negate : Unary::Op::plus;
    operand = make(line, Unary{op, unary(false)});
  } else {
    operand = primary();
  }
  operand = postfix(std::move(operand));
  return with_filters ? tests_and_filters(std::move(operand)) : std::move(operand);
}

ExprPtr ExpressionParser::primary() {
  const Token& token = tokens_.current();
  if (token.type == Token::Type::name) return name_or_constant();
  if (token.type == Token::Type::text) return string();
  if (token.type == Token::Type::integer) {
    const Token number = tokens_.next();
    return make(number.line, Literal{number.integer});
  }
  if (token.type == Token::Type::real) {
    const Token number = tokens_.next();
    return make(number.line, Literal{number.real});
  }
  if (tokens_.is_op("(")) return parenthesis();
  if (tokens_.is_op("[")) return list();
  if (tokens_.is_op("{")) return dict();
  tokens_.fail("expected an expression, found " + tokens_.describe());
}

ExprPtr ExpressionParser::name_or_constant() {
  const Token token = tokens_.next();
  if (token.text == "true" || token.text == "True") return make(token.line, Literal{true});
  if (token.text == "false" || token.text == "False") return make(token.line, Literal{false});
  if (token.text == "none" || token.text == "None") return make(token.line, Literal{});
  for (MacroBody* macro : open_macros) {
    if (token.text == "caller") macro->uses_caller = true;
    if (token.text == "varargs") macro->uses_varargs = true;
    if (token.text == "kwargs") macro->uses_kwargs = true;
  }
  return make(token.line, Name{token.text});
}

ExprPtr ExpressionParser::string() {
  const Token first = tokens_.next();
  std::string value = first.text;
  while (tokens_.is(Token::Type::text)) value += tokens_.next().text;
  return make(first.line, Literal{std::move(value)});
}

ExprPtr ExpressionParser::parenthesis() {
  const int line = tokens_.next().line;
  if (tokens_.skip_op(")")) return make(line, ListExpr{true, {}});
  ExprPtr inner = tuple();
  tokens_.expect_op(")");
  return inner;
}

ExprPtr ExpressionParser::list() {
  const int line = tokens_.next().line;
  std::vector<ExprPtr> items;
  while (!tokens_.is_op("]")) {
    if (!items.empty()) tokens_.expect_op(",");
    if (tokens_.is_op("]")) break;
    items.push_back(expression());
  }
  tokens_.expect_op("]");
  return make(line, ListExpr{false, std::move(items)});
}

ExprPtr ExpressionParser::dict() {
  const int line = tokens_.next().line;
  DictExpr dict;
  while (!tokens_.is_op("}")) {
    if (!dict.entries.empty()) tokens_.expect_op(",");
    if (tokens_.is_op("}")) break;
    ExprPtr key = expression();
    tokens_.expect_op(":");
    dict.entries.emplace_back(std::move(key), expression());
  }
  tokens_.expect_op("}");
  return make(line, std::move(dict));
}

ExprPtr ExpressionParser::postfix(ExprPtr operand) {
  while (true) {
    if (tokens_.is_op(".")) {
      operand = attribute(std::move(operand));
    } else if (tokens_.is_op("[")) {
      operand = subscript(std::move(operand));
    } else if (tokens_.is_op("(")) {
      const int line = tokens_.line();
      operand = make(line, Call{std::move(operand), arguments()});
    } else {
      return operand;
    }
  }
}

ExprPtr ExpressionParser::attribute(ExprPtr operand) {
  const int line = tokens_.next().line;
  if (tokens_.is(Token::Type::integer)) {
    ExprPtr key = make(line, Literal{tokens_.next().integer});
    return make(line, Subscript{std::move(operand), std::move(key)});
  }
  return make(line, Attribute{std::move(operand), tokens_.expect_identifier()});
}

ExprPtr ExpressionParser::subscript(ExprPtr operand) {
  const int line = tokens_.next().line;
  ExprPtr parts[3];
  int n_colons = 0;
  while (!tokens_.is_op("]")) {
    if (tokens_.is_op(":")) {
      if (++n_colons > 2) tokens_.fail("a slice has at most three parts");
      tokens_.next();
    } else if (parts[n_colons]) {
      tokens_.fail("expected ']', found " + tokens_.describe());
    } else {
      parts[n_colons] = expression();
    }
  }
  tokens_.expect_op("]");
  if (n_colons > 0) {
    return make(line,
                Slice{std::move(operand), std::move(parts[0]), std::move(parts[1]), std::move(parts[2])});
  }
  if (!parts[0]) tokens_.fail("[] needs an index");
  return make(line, Subscript{std::move(operand), std::move(parts[0])});
}

ExprPtr ExpressionParser::tests_and_filters(ExprPtr operand) {
  while (true) {
    if (tokens_.is_op("|")) {
      operand = filters(std::move(operand), false);
    } else if (tokens_.is_name("is")) {
      operand = test(std::move(operand));
    } else if (tokens_.is_op("(")) {
      const int line = tokens_.line();
      operand = make(line, Call{std::move(operand), arguments()});
    } else {
      return operand;
    }
  }
}

ExprPtr ExpressionParser::filters(ExprPtr operand, bool first_is_bare) {
  while (first_is_bare || tokens_.skip_op("|")) {
    first_is_bare = false;
    const int line = tokens_.line();
    std::string name = tokens_.expect_identifier();
    Arguments args;
    if (tokens_.is_op("(")) args = arguments();
    operand = make(line, Filter{std::move(operand), std::move(name), std::move(args)});
  }
  return operand;
}

ExprPtr ExpressionParser::test(ExprPtr operand) {
  const int line = tokens_.next().line;
  const bool is_negated = tokens_.skip_name("not");
  std::string name = tokens_.expect_identifier();
  Arguments args;
  if (tokens_.is_op("(")) {
    args = arguments();
  } else if (tokens_.is_name("is")) {
    tokens_.fail("tests cannot be chained with 'is'");
  } else {
    const bool is_name = tokens_.is(Token::Type::name) && !tokens_.is_name("else") &&
                         !tokens_.is_name("or") && !tokens_.is_name("and");
    const bool is_literal = tokens_.is(Token::Type::text) || tokens_.is(Token::Type::integer) ||
                            tokens_.is(Token::Type::real) || tokens_.is_op("[") || tokens_.is_op("{");
    if (is_name || is_literal) args.positional.push_back(postfix(primary()));
  }
  ExprPtr node = make(line, Test{std::move(operand), std::move(name), std::move(args)});
  return is_negated ? make(line, Unary{Unary::Op::logical_not, std::move(node)}) : std::move(node);
}

Arguments ExpressionParser::arguments() {
  tokens_.expect_op("(");
  Arguments args;
  bool need_comma = false;
  while (!tokens_.is_op(")")) {
    if (need_comma) tokens_.expect_op(",");
    if (tokens_.is_op(")")) break;
    need_comma = true;
    if (tokens_.is_op("*") && !args.star && !args.double_star) {
      tokens_.next();
      args.star = expression();
    } else if (tokens_.is_op("**") && !args.double_star) {
      tokens_.next();
      args.double_star = expression();
    } else if (tokens_.is(Token::Type::name) && tokens_.look().type == Token::Type::op &&
               tokens_.look().text == "=") {
      if (args.double_star) tokens_.fail("an argument follows **kwargs");
      std::string name = tokens_.next().text;
      tokens_.next();
      args.named.emplace_back(std::move(name), expression());
    } else {
      if (args.star || args.double_star || !args.named.empty())
        tokens_.fail("a positional argument follows a named one");
      args.positional.push_back(expression());
    }
  }
  tokens_.expect_op(")");
  return args;
}

Target ExpressionParser::single_target(bool with_attribute) {
  const Descent descent(depth_, tokens_);
  if (tokens_.skip_op("(")) {
    Target inner = target(with_attribute);
    tokens_.expect_op(")");
    return inner;
  }
  Target single;
  single.name = tokens_.expect_identifier();
  static constexpr std::string_view kConstants[] = {"true", "false", "none", "True", "False", "None"};
  if (std::find(std::begin(kConstants), std::end(kConstants), single.name) != std::end(kConstants)) {
    tokens_.fail("cannot assign to '" + single.name + "'");
  }
  if (with_attribute && tokens_.skip_op(".")) single.attribute = tokens_.expect_identifier();
  return single;
}

Target ExpressionParser::target(bool with_attribute, std::string_view stop) {
  Target first = single_target(with_attribute);
  if (!tokens_.is_op(",")) return first;
  Target all;
  all.is_tuple = true;
  all.parts.push_back(std::move(first));
  while (tokens_.skip_op(",")) {
    if (ends_tuple(tokens_, stop) || tokens_.is_op("=")) break;
    all.parts.push_back(single_target(with_attribute));
  }
  return all;
}

}  // namespace hearth::jinja
