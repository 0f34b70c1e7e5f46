// Builds the grammar of the answers that a request allows, which constrains sampling. An answer consists of
// thinking, text (which may have a format) and calls of the request's tools in the model's syntax. The
// arguments of a call conform to the tool's schema.
//
// The grammar contains tags such as <tool_call> as bytes. In many vocabularies, these tags are control
// tokens, and a constraint on bytes normally ignores control tokens. The constraint therefore matches each of
// ChatSyntax::control_tokens as its text. The grammar does not contain the text of end tokens: an end token
// may be sampled wherever the text so far is complete.
//
// Called once per request, on the HTTP thread. A ConstraintError that a ValueExpr throws reaches the caller.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/constraint/grammar/grammar.h"
#include "server/chat/chat_form.h"

namespace hearth {

/// A function that adds expressions to the grammar and returns the expression of a value written as JSON.
using ValueExpr = std::function<Grammar::Expr(Grammar&)>;

/// A parameter of a tool, for syntaxes that write each parameter separately instead of all in one JSON
/// object.
struct GrammarParameter {
  std::string name;
  bool required = false;
  ValueExpr value;  // null: any text, without quotes if the syntax writes texts without quotes
  /// The parameter's values, for syntaxes that write texts without quotes. `texts` matches the values that
  /// are texts, and contains no calls. `others` matches all other values, as JSON. Either may be absent.
  struct Parts {
    std::optional<Grammar::Expr> texts = {}, others = {};
  };
  std::function<Parts(Grammar&)> parts = {};
};

struct GrammarTool {
  std::string name;
  ValueExpr arguments;  // for kJsonObject, kTagged, kMarked, kHarmony: all arguments as one object
  std::vector<GrammarParameter> parameters;  // for kParameters, kPython: in the order of a call
};

/// tools: the tools of `form`, in their order. Throws ConstraintError if a call is required but no tool may
/// be called, or if the grammar becomes too large.
Grammar build_tool_grammar(const ChatForm& form, const std::vector<GrammarTool>& tools);

}  // namespace hearth
