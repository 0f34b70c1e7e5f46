// Parses templates. First comes the parser of expressions, then the parser of statements, which are written
// as {% ... %}. Runs once, when a model's template is loaded.
#include "server/jinja/ast.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/jinja/lexer.h"
#include "server/jinja/template_error.h"

namespace hearth::jinja {
namespace {

// Templates in use are smaller than 64 KiB.
constexpr std::size_t kMaxSourceBytes = std::size_t{1} << 20;
constexpr int kMaxBlockDepth = 60;

// Templates in use do not reach a tenth of this depth. The limit bounds the stack of the parser, the
// evaluator and the destructor.
constexpr int kMaxDepth = 150;

bool ends_tuple(const TokenStream& tokens, std::string_view stop) {
  return tokens.is(Token::Type::output_end) || tokens.is(Token::Type::block_end) || tokens.is_op(")") ||
         (!stop.empty() && tokens.is_name(stop));
}

// Computes the depth of a node's deepest child. depth_of() accepts any member of a node. Names and operators
// have depth 0.
struct ChildDepth {
  static int depth_of(const ExprPtr& child) { return child ? child->depth : 0; }
  static int depth_of(const std::string&) { return 0; }
  static int depth_of(Comparison) { return 0; }
  static int depth_of(const Arguments& arguments) {
    return deepest(arguments.positional, arguments.named, arguments.star, arguments.double_star);
  }
  template <typename First, typename Second>
  static int depth_of(const std::pair<First, Second>& both) {
    return deepest(both.first, both.second);
  }
  template <typename Item>
  static int depth_of(const std::vector<Item>& items) {
    int depth = 0;
    for (const Item& item : items) depth = std::max(depth, depth_of(item));
    return depth;
  }
  template <typename... Children>
  static int deepest(const Children&... children) {
    return std::max({depth_of(children)...});
  }

  int operator()(const Literal&) const { return 0; }
  int operator()(const Name&) const { return 0; }
  int operator()(const BlockText&) const { return 0; }
  int operator()(const ListExpr& n) const { return depth_of(n.items); }
  int operator()(const DictExpr& n) const { return depth_of(n.entries); }
  int operator()(const Concat& n) const { return depth_of(n.items); }
  int operator()(const Binary& n) const { return deepest(n.left, n.right); }
  int operator()(const Logic& n) const { return deepest(n.left, n.right); }
  int operator()(const Unary& n) const { return depth_of(n.operand); }
  int operator()(const Compare& n) const { return deepest(n.first, n.rest); }
  int operator()(const Conditional& n) const { return deepest(n.condition, n.value, n.otherwise); }
  int operator()(const Attribute& n) const { return depth_of(n.object); }
  int operator()(const Subscript& n) const { return deepest(n.object, n.key); }
  int operator()(const Slice& n) const { return deepest(n.object, n.start, n.stop, n.step); }
  int operator()(const Call& n) const { return deepest(n.callee, n.arguments); }
  int operator()(const Filter& n) const { return deepest(n.operand, n.arguments); }
  int operator()(const Test& n) const { return deepest(n.operand, n.arguments); }
};

// Counts one level of the parser's recursion while this object exists.
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

// Parses expressions. The levels of precedence, lowest first: if-else; or; and; not; comparisons; + and -; ~;
// the operators * / // and %; **; unary operators; postfix . [] (), filters and tests. Every parse method
// throws TemplateError.
class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  ExprPtr expression(bool with_conditional = true) {
    const Descent descent(depth_, tokens_);
    return with_conditional ? conditional() : logical_or();
  }

  // Parses an expression, or a tuple if a comma follows. stop: a name that ends the tuple, for example
  // "recursive".
  ExprPtr tuple(bool with_conditional = true, std::string_view stop = {}) {
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

  // Parses `| name(args) | ...` and applies the filters to `operand`. first_is_bare: no '|' precedes the
  // first filter.
  ExprPtr filters(ExprPtr operand, bool first_is_bare) {
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

  // Parses the left side of a set, for or with statement. with_attribute: allows namespace.attribute, as in
  // set.
  Target target(bool with_attribute, std::string_view stop = {}) {
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

  // Creates a node at this line. Throws TemplateError if the tree below the node is too deep.
  ExprPtr make(int line, decltype(Expr::node) node) const {
    const int depth = 1 + std::visit(ChildDepth{}, node);
    if (depth > kMaxDepth) throw TemplateError(line, "the expression nests too deeply");
    return std::make_unique<Expr>(Expr{line, depth, std::move(node)});
  }

  // The macros whose bodies are being parsed, outermost first. If a body uses caller, varargs or kwargs, all
  // these macros record the use.
  std::vector<MacroBody*> open_macros;

 private:
  ExprPtr conditional() {
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

  ExprPtr logical_or() {
    ExprPtr left = logical_and();
    while (tokens_.is_name("or")) {
      const int line = tokens_.next().line;
      ExprPtr right = logical_and();
      left = make(line, Logic{false, std::move(left), std::move(right)});
    }
    return left;
  }

  ExprPtr logical_and() {
    ExprPtr left = logical_not();
    while (tokens_.is_name("and")) {
      const int line = tokens_.next().line;
      ExprPtr right = logical_not();
      left = make(line, Logic{true, std::move(left), std::move(right)});
    }
    return left;
  }

  ExprPtr logical_not() {
    if (!tokens_.is_name("not")) return comparison();
    const Descent descent(depth_, tokens_);
    const int line = tokens_.next().line;
    return make(line, Unary{Unary::Op::logical_not, logical_not()});
  }

  ExprPtr comparison() {
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

  // Parses operands that are joined by the operators in `ops`, from left to right.
  ExprPtr left_associative(ExprPtr (ExpressionParser::*operand)(),
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

  ExprPtr sum() {
    return left_associative(&ExpressionParser::concatenation,
                            {{"+", Operator::add}, {"-", Operator::subtract}});
  }

  ExprPtr concatenation() {
    const int line = tokens_.line();
    ExprPtr first = product();
    if (!tokens_.is_op("~")) return first;
    Concat concat;
    concat.items.push_back(std::move(first));
    while (tokens_.skip_op("~")) concat.items.push_back(product());
    return make(line, std::move(concat));
  }

  ExprPtr product() {
    return left_associative(&ExpressionParser::power, {{"*", Operator::multiply},
                                                       {"/", Operator::divide},
                                                       {"//", Operator::floor_divide},
                                                       {"%", Operator::modulo}});
  }

  ExprPtr power() {
    ExprPtr left = unary();
    while (tokens_.is_op("**")) {
      const int line = tokens_.next().line;
      ExprPtr right = unary();
      left = make(line, Binary{Operator::power, std::move(left), std::move(right)});
    }
    return left;
  }

  ExprPtr unary(bool with_filters = true) {
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

  ExprPtr primary() {
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

  ExprPtr name_or_constant() {
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

  ExprPtr string() {
    const Token first = tokens_.next();
    std::string value = first.text;
    while (tokens_.is(Token::Type::text)) value += tokens_.next().text;
    return make(first.line, Literal{std::move(value)});
  }

  ExprPtr parenthesis() {
    const int line = tokens_.next().line;
    if (tokens_.skip_op(")")) return make(line, ListExpr{true, {}});
    ExprPtr inner = tuple();
    tokens_.expect_op(")");
    return inner;
  }

  ExprPtr list() {
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

  ExprPtr dict() {
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

  ExprPtr postfix(ExprPtr operand) {
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

  ExprPtr attribute(ExprPtr operand) {
    const int line = tokens_.next().line;
    if (tokens_.is(Token::Type::integer)) {
      ExprPtr key = make(line, Literal{tokens_.next().integer});
      return make(line, Subscript{std::move(operand), std::move(key)});
    }
    return make(line, Attribute{std::move(operand), tokens_.expect_identifier()});
  }

  ExprPtr subscript(ExprPtr operand) {
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

  ExprPtr tests_and_filters(ExprPtr operand) {
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

  ExprPtr test(ExprPtr operand) {
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

  Arguments arguments() {
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

  Target single_target(bool with_attribute) {
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

  TokenStream& tokens_;
  int depth_ = 0;  // depth of this parser's own recursion
};

// Parses statements. Parses the expressions in them with an ExpressionParser.
class StatementParser {
 public:
  explicit StatementParser(TokenStream& tokens) : tokens_(tokens), expressions_(tokens) {}

  Body whole_template() {
    Body body = statements({});
    if (!tokens_.is(Token::Type::end)) tokens_.fail("unexpected " + tokens_.describe());
    return body;
  }

 private:
  // Parses statements up to a tag that begins with a name in `ends`. This name becomes the current token.
  Body statements(std::initializer_list<std::string_view> ends) {
    if (depth_ >= kMaxBlockDepth) tokens_.fail("blocks nest too deeply");
    ++depth_;
    Body body;
    while (!tokens_.is(Token::Type::end)) {
      const int line = tokens_.line();
      if (tokens_.is(Token::Type::data)) {
        body.push_back({line, Data{tokens_.next().text}});
      } else if (tokens_.is(Token::Type::output_begin)) {
        tokens_.next();
        body.push_back({line, Output{expressions_.tuple()}});
        tokens_.expect(Token::Type::output_end, "'}}'");
      } else {
        tokens_.expect(Token::Type::block_begin, "'{%'");
        const bool is_end =
            std::any_of(ends.begin(), ends.end(), [this](auto name) { return tokens_.is_name(name); });
        if (is_end) {
          --depth_;
          return body;
        }
        body.push_back(statement());
        tokens_.expect(Token::Type::block_end, "'%}'");
      }
    }
    if (ends.size() > 0)
      tokens_.fail("the template ends before '" + std::string(*std::prev(ends.end())) + "'");
    --depth_;
    return body;
  }

  // Parses the body of a block, from the %} of its opening tag on.
  Body block(std::initializer_list<std::string_view> ends) {
    tokens_.skip_op(":");
    tokens_.expect(Token::Type::block_end, "'%}'");
    return statements(ends);
  }

  Body closed_block(std::string_view end) {
    Body body = block({end});
    tokens_.expect_name(end);
    return body;
  }

  Stmt statement() {
    const int line = tokens_.line();
    const std::string tag = tokens_.expect_identifier();
    if (tag == "for") return {line, for_loop()};
    if (tag == "if") return {line, if_chain()};
    if (tag == "set") return set(line);
    if (tag == "macro") return {line, Macro{macro()}};
    if (tag == "call") return {line, call_block()};
    if (tag == "filter") {
      ExprPtr value = expressions_.filters(expressions_.make(line, BlockText{}), true);
      return {line, FilterBlock{std::move(value), closed_block("endfilter")}};
    }
    if (tag == "with") return {line, with()};
    if (tag == "generation") return {line, With{{}, closed_block("endgeneration")}};
    if (tag == "do") return {line, Do{expressions_.tuple()}};
    if (tag == "break" || tag == "continue") return loop_control(line, tag);
    throw TemplateError(line, "unknown tag '" + tag + "'");
  }

  For for_loop() {
    For loop;
    loop.target = expressions_.target(false, "in");
    tokens_.expect_name("in");
    loop.items = expressions_.tuple(false, "recursive");
    if (tokens_.skip_name("if")) loop.filter = expressions_.expression();
    if (tokens_.is_name("recursive")) tokens_.fail("recursive loops are not supported; use a macro");
    ++n_open_loops_;
    loop.body = block({"else", "endfor"});
    --n_open_loops_;
    if (tokens_.skip_name("else")) loop.otherwise = block({"endfor"});
    tokens_.expect_name("endfor");
    return loop;
  }

  If if_chain() {
    If chain;
    do {
      ExprPtr condition = expressions_.tuple(false);
      Body body = block({"elif", "else", "endif"});
      chain.branches.emplace_back(std::move(condition), std::move(body));
    } while (tokens_.skip_name("elif"));
    if (tokens_.skip_name("else")) chain.otherwise = block({"endif"});
    tokens_.expect_name("endif");
    return chain;
  }

  Stmt set(int line) {
    Target target = expressions_.target(true);
    if (tokens_.skip_op("=")) return {line, Set{std::move(target), expressions_.tuple()}};
    ExprPtr value = expressions_.filters(expressions_.make(line, BlockText{}), false);
    return {line, SetBlock{std::move(target), std::move(value), closed_block("endset")}};
  }

  void signature(MacroBody& macro) {
    tokens_.expect_op("(");
    while (!tokens_.is_op(")")) {
      if (!macro.parameters.empty()) tokens_.expect_op(",");
      std::string name = tokens_.expect_identifier();
      ExprPtr value;
      if (tokens_.skip_op("=")) {
        value = expressions_.expression();
      } else if (!macro.parameters.empty() && macro.parameters.back().second) {
        tokens_.fail("parameter '" + name + "' without a default follows one with a default");
      }
      macro.parameters.emplace_back(std::move(name), std::move(value));
    }
    tokens_.expect_op(")");
  }

  // Parses the body of a macro or call block. In this body, `break` cannot leave a loop outside the body.
  void macro_body(MacroBody& macro, std::string_view end) {
    const int n_open_loops = std::exchange(n_open_loops_, 0);
    expressions_.open_macros.push_back(&macro);
    macro.body = closed_block(end);
    expressions_.open_macros.pop_back();
    n_open_loops_ = n_open_loops;
  }

  std::unique_ptr<MacroBody> macro() {
    auto macro = std::make_unique<MacroBody>();
    macro->name = tokens_.expect_identifier();
    signature(*macro);
    macro_body(*macro, "endmacro");
    return macro;
  }

  CallBlock call_block() {
    CallBlock block;
    block.caller = std::make_unique<MacroBody>();
    block.caller->name = "caller";
    if (tokens_.is_op("(")) signature(*block.caller);
    const int line = tokens_.line();
    ExprPtr call = expressions_.expression();
    Call* parts = std::get_if<Call>(&call->node);
    if (!parts) throw TemplateError(line, "{% call %} needs a call of a macro");
    block.callee = std::move(parts->callee);
    block.arguments = std::move(parts->arguments);
    macro_body(*block.caller, "endcall");
    return block;
  }

  With with() {
    With with;
    while (!tokens_.is(Token::Type::block_end)) {
      if (!with.values.empty()) tokens_.expect_op(",");
      Target target = expressions_.target(false);
      tokens_.expect_op("=");
      with.values.emplace_back(std::move(target), expressions_.expression());
    }
    with.body = closed_block("endwith");
    return with;
  }

  Stmt loop_control(int line, const std::string& tag) const {
    if (n_open_loops_ == 0) throw TemplateError(line, "'" + tag + "' outside of a loop");
    if (tag == "break") return {line, Break{}};
    return {line, Continue{}};
  }

  TokenStream& tokens_;
  ExpressionParser expressions_;
  int depth_ = 0;
  int n_open_loops_ = 0;
};

}  // namespace

Body parse(std::string_view source) {
  if (source.size() > kMaxSourceBytes) {
    throw TemplateError(1, "the template has " + std::to_string(source.size()) + " bytes, at most " +
                               std::to_string(kMaxSourceBytes) + " are allowed");
  }
  TokenStream tokens(tokenize(source));
  return StatementParser(tokens).whole_template();
}

}  // namespace hearth::jinja
