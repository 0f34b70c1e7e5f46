// The parser's view of the tokens: one current token, expectations, errors with their line.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/jinja/error.h"
#include "server/jinja/lexer.h"

namespace hearth::jinja {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[at_]; }
  // The token after the current one; the end token follows itself.
  const Token& look() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  Token next() {
    Token token = current();
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  int line() const { return current().line; }

  bool is(Token::Type type) const { return current().type == type; }
  bool is_op(std::string_view op) const { return is(Token::Type::op) && current().text == op; }
  bool is_name(std::string_view name) const { return is(Token::Type::name) && current().text == name; }

  bool skip_op(std::string_view op) { return is_op(op) && (next(), true); }
  bool skip_name(std::string_view name) { return is_name(name) && (next(), true); }

  void expect_op(std::string_view op) {
    if (!skip_op(op)) fail("expected '" + std::string(op) + "', found " + describe());
  }
  void expect_name(std::string_view name) {
    if (!skip_name(name)) fail("expected '" + std::string(name) + "', found " + describe());
  }
  void expect(Token::Type type, std::string_view what) {
    if (!is(type)) fail("expected " + std::string(what) + ", found " + describe());
    next();
  }
  std::string expect_identifier() {
    if (!is(Token::Type::name)) fail("expected a name, found " + describe());
    return next().text;
  }

  // The current token as an error message calls it.
  std::string describe() const {
    switch (current().type) {
      case Token::Type::data:
        return "text outside of tags";
      case Token::Type::output_begin:
        return "'{{'";
      case Token::Type::output_end:
        return "'}}'";
      case Token::Type::block_begin:
        return "'{%'";
      case Token::Type::block_end:
        return "'%}'";
      case Token::Type::text:
        return "a string";
      case Token::Type::end:
        return "the end of the template";
      default:
        return "'" + current().text + "'";
    }
  }
  [[noreturn]] void fail(const std::string& reason) const { throw TemplateError(line(), reason); }

 private:
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
};

}  // namespace hearth::jinja
