#include "server/chat/answer_format.h"

#include <span>

#include "engine/constraint/grammar/gbnf.h"
#include "engine/constraint/regex/regex.h"
#include "engine/constraint/schema/json_schema.h"
#include "server/json/api_error.h"

namespace hearth {
namespace {

Grammar::Expr write_utf8(Grammar& grammar, std::span<const CharRange> ranges) {
  return grammar.character(ranges);
}

}  // namespace

Grammar::Expr format_expression(Grammar& grammar, const AnswerFormat& format) {
  using Kind = AnswerFormat::Kind;
  switch (format.kind) {
    case Kind::kJsonSchema:
      return json_schema_expression(grammar, format.text);
    case Kind::kRegex:
      return regex_expression(grammar, format.text, write_utf8, RegexMatch::kWhole);
    case Kind::kGrammar:
      return gbnf_expression(grammar, format.text);
    case Kind::kChoice: {
      std::vector<Grammar::Expr> options;
      for (const std::string& choice : format.choices) options.push_back(grammar.literal(choice));
      return grammar.choice(options);
    }
    case Kind::kText:
    case Kind::kJsonObject:
      break;
  }
  return json_object_expression(grammar);
}

Grammar format_grammar(const AnswerFormat& format) {
  Grammar grammar;
  const Grammar::Rule root = grammar.declare("root");
  grammar.define(root, format_expression(grammar, format));
  grammar.set_root(root);
  return grammar;
}

/// The length of each text precedes the text, so that different formats have different keys.
std::string format_key(const AnswerFormat& format) {
  std::string key = std::to_string(static_cast<int>(format.kind)) + ":" + std::to_string(format.text.size()) +
                    ":" + format.text;
  for (const std::string& choice : format.choices) key += std::to_string(choice.size()) + ":" + choice;
  return key;
}

void refuse_constraint(const std::string& param, const ConstraintError& error) {
  const std::string where = error.where().empty() ? "" : " (at " + error.where() + ")";
  refuse_param(param, "'" + param + "' cannot be enforced" + where + ": " + error.what());
}

}  // namespace hearth
