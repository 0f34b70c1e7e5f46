// The format that a request requires of its answer, and the grammar of the format.
//
// An AnswerFormat is filled when a request is parsed on an HTTP thread, and does not change afterward.
#pragma once

#include <string>
#include <vector>

#include "engine/constraint/grammar/grammar.h"

namespace hearth {

struct AnswerFormat {
  enum class Kind {
    kText,        // anything
    kJsonObject,  // any JSON object
    kJsonSchema,  // JSON that conforms to the schema `text`
    kRegex,       // text that matches all of the regular expression `text`
    kGrammar,     // text that matches the GBNF grammar `text`
    kChoice,      // one of `choices`
  };
  Kind kind = Kind::kText;
  std::string text;
  std::vector<std::string> choices;  // kChoice: at least one; none is empty
  std::string param = {};            // the request parameter that set the format, for error messages
};

/// Return the format's grammar, either alone or as an expression in a larger grammar. Throw ConstraintError.
/// REQUIRES: the kind is not kText.
Grammar format_grammar(const AnswerFormat& format);
Grammar::Expr format_expression(Grammar& grammar, const AnswerFormat& format);

/// Returns a key that is equal for two formats if and only if they have the same kind and texts.
std::string format_key(const AnswerFormat& format);

/// Throws RequestError (400), which contains the parameter, the part that cannot be enforced, and the reason.
[[noreturn]] void refuse_constraint(const std::string& param, const ConstraintError& error);

}  // namespace hearth
