// Splits a template into tokens and applies Jinja's whitespace rules. Uses the settings for which chat
// templates are written: trim_blocks and lstrip_blocks are on, and one trailing newline is dropped. Also
// contains the class with which the parser reads the tokens.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/jinja/template_error.h"

namespace hearth::jinja {

struct Token {
  enum class Type {
    data,
    output_begin,
    output_end,
    block_begin,
    block_end,
    name,
    text,
    integer,
    real,
    op,
    end
  };
  Type type;
  int line;
  std::string text;  // type data, name, op: the token's text; type text: the value of the string literal
  std::int64_t integer = 0;  // value of an integer literal
  double real = 0;           // value of a real literal
};

// Returns all tokens of the template. The last one has type end. Throws TemplateError.
std::vector<Token> tokenize(std::string_view source);

// A sequence of tokens and a position in it. The parser reads the current token, checks its type, and reports
// errors with the token's line.
class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[at_]; }
  // Returns the token after the current token, or the end token if the current token is the last.
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

  // Describes the current token in error messages.
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
