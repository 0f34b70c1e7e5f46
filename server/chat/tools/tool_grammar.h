// Builds a grammar of the answers that a request allows, which constrains sampling. Such an answer consists
// of thinking, text (which may have a format) and calls of the request's tools in the model's syntax. The
// arguments of a call conform to the tool's schema.
//
// The grammar contains tags such as <tool_call> as bytes. In many vocabularies these tags are control tokens,
// which a constraint on bytes would ignore. The constraint therefore accepts ChatSyntax::control_tokens for
// their text. The grammar does not contain the texts that end an answer: where the grammar may end, the
// sequence may end with an end token.
//
// Called once per request, on the HTTP thread. A ConstraintError from a function that builds arguments is
// passed on to the caller.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/constraint/grammar/grammar.h"
#include "server/chat/chat_form.h"

namespace hearth {

/// Adds expressions to the grammar, and returns the expression that matches a value written as JSON.
using ValueExpr = std::function<Grammar::Expr(Grammar&)>;

/// A parameter of a tool, for syntaxes that write each parameter separately.
struct GrammarParameter {
  std::string name;
  bool required = false;
  ValueExpr value;      // null: any text, without quotes if the syntax writes texts without quotes
  ValueExpr text = {};  // used instead of `value` where text has no quotes; must not call rules
};

struct GrammarTool {
  std::string name;
  ValueExpr arguments;  // the arguments as one object; for kJsonObject, kTagged, kHarmony
  std::vector<GrammarParameter> parameters;  // in the order of a call; for kParameters and kPython
};

/// tools: the tools in `form`, in the same order. Throws ConstraintError if a tool must be called but none is
/// allowed, or if the grammar becomes too large.
Grammar build_tool_grammar(const ChatForm& form, const std::vector<GrammarTool>& tools);

}  // namespace hearth
