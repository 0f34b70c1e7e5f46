// The format that a request demands of its answer, and the grammar of that format.
//
// Request parsers fill it on the HTTP thread; plain data afterward.
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
    kRegex,       // text that matches the regular expression `text` as a whole
    kGrammar,     // a text of the GBNF grammar `text`
    kChoice,      // one of `choices`
  };
  Kind kind = Kind::kText;
  std::string text;
  std::vector<std::string> choices;  // at least one, none empty
  std::string param = {};            // the parameter that set it, for error messages
};

/// A format's grammar, alone or as a part of a larger grammar. Throw ConstraintError. REQUIRES: not kText.
Grammar format_grammar(const AnswerFormat& format);
Grammar::Expr format_expression(Grammar& grammar, const AnswerFormat& format);

/// A key that two formats share if and only if they have the same grammar text.
std::string format_key(const AnswerFormat& format);

/// Throws RequestError (400) that names what cannot be enforced, the parameter, and the place in it.
[[noreturn]] void refuse_constraint(const std::string& param, const ConstraintError& error);

}  // namespace hearth
