// Cuts a template into tokens and applies Jinja's whitespace rules with the settings chat templates are
// written for: trim_blocks and lstrip_blocks on, one trailing newline dropped. Called by the parser.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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
  std::string text;  // data, a name, an operator, or a string literal's value
  std::int64_t integer = 0;
  double real = 0;
};

// All tokens of the template, the last of type end. Throws TemplateError.
std::vector<Token> tokenize(std::string_view source);

}  // namespace hearth::jinja
