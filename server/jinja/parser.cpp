// The statement parser: everything between {% and %}.
#include "server/jinja/parser.h"

#include <algorithm>
#include <initializer_list>
#include <string>

#include "server/jinja/expression_parser.h"

namespace hearth::jinja {
namespace {

// The largest templates in circulation are under 64 KiB.
constexpr std::size_t kMaxSourceBytes = std::size_t{1} << 20;
constexpr int kMaxBlockDepth = 60;

class StatementParser {
 public:
  explicit StatementParser(TokenStream& tokens) : tokens_(tokens), expressions_(tokens) {}

  Body whole_template() {
    Body body = statements({});
    if (!tokens_.is(Token::Type::end)) tokens_.fail("unexpected " + tokens_.describe());
    return body;
  }

 private:
  // Statements up to a block that begins with one of `ends`; that name becomes the current token.
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

  // The body of a block whose opening tag was read up to its end.
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

  // Parses the body of a macro or call block: a loop around it is not its loop.
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
