// Builds the grammar of the answers that a request allows, to constrain sampling: thinking, text or text of a
// format, then calls of the request's tools in the model's own syntax, with arguments that conform to each
// tool's schema.
//
// The grammar contains tags such as <tool_call> as bytes. In many vocabularies they are control tokens, which
// a constraint on bytes would ignore, so the constraint lets ChatSyntax::control_tokens stand for their text.
// Texts that end the answer are not in the grammar: the sequence ends with an end token where the grammar may
// end.
//
// Called once per request, on the HTTP thread. ConstraintErrors of the functions that build arguments pass
// through.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/constraint/grammar/grammar.h"
#include "server/chat/chat_form.h"

namespace hearth {

/// Adds expressions to the grammar and returns the one that matches a value, as JSON.
using ValueExpr = std::function<Grammar::Expr(Grammar&)>;

/// A parameter of a tool, for syntaxes that write each parameter separately.
struct GrammarParameter {
  std::string name;
  bool required = false;
  ValueExpr value;      // null: any text, unquoted if the syntax writes text so
  ValueExpr text = {};  // replaces value where texts are unquoted; must not call rules
};

struct GrammarTool {
  std::string name;
  ValueExpr arguments;                       // the whole object, for kJsonObject, kTagged and kHarmony
  std::vector<GrammarParameter> parameters;  // in writing order; for kParameters and kPython
};

/// tools: those of the form, in order. Throws ConstraintError if no tool is allowed although one must be
/// called, or if the grammar becomes too large.
Grammar build_tool_grammar(const ChatForm& form, const std::vector<GrammarTool>& tools);

}  // namespace hearth
