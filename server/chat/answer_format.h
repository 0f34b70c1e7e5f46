// The format that a request requires its answer to have, and the grammar of that format.
//
// Request parsers fill an AnswerFormat on the HTTP thread. It is plain data and does not change afterward.
#pragma once

#include <string>
#include <vector>

#include "engine/constraint/grammar/grammar.h"

namespace hearth {

struct AnswerFormat {
  enum class Kind {
    kText,        // anything
    kJsonObject,  // any JSON object
    kJsonSchema,  // JSON valid under the schema `text`
    kRegex,       // text that matches the regular expression `text` from beginning to end
    kGrammar,     // a text that matches the GBNF grammar `text`
    kChoice,      // one of `choices`
  };
  Kind kind = Kind::kText;
  std::string text;
  std::vector<std::string> choices;  // at least one choice, none of them empty
  std::string param = {};            // the request parameter that set the format, for error messages
};

/// Return a format's grammar, alone or as an expression within a larger grammar. Throw ConstraintError.
/// REQUIRES: the format is not kText.
Grammar format_grammar(const AnswerFormat& format);
Grammar::Expr format_expression(Grammar& grammar, const AnswerFormat& format);

/// Returns a key. Two formats have equal keys if and only if their grammars have the same text.
std::string format_key(const AnswerFormat& format);

/// Throws a RequestError (400) that gives the parameter, the part of it that cannot be enforced, and the
/// reason.
[[noreturn]] void refuse_constraint(const std::string& param, const ConstraintError& error);

}  // namespace hearth
