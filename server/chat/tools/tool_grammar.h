// Builds the grammar of answers that a request with tools allows, to constrain sampling: free text, then
// calls of the request's tools in the model's own syntax, with arguments that conform to each tool's schema.
//
// The grammar contains tags such as <tool_call> as bytes. In many vocabularies they are control tokens, which
// a constraint on bytes would ignore: ToolGrammar::control_texts lists them, so that the constraint lets
// these tokens stand for their text. Texts that end the answer are not in the grammar: the sequence ends with
// an end token where the grammar may end.
//
// Called once per request, on the HTTP thread. ConstraintErrors of the functions that build arguments pass
// through.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/constraint/grammar/grammar.h"
#include "server/chat/thinking_syntax.h"
#include "server/chat/tools/tool_syntax.h"

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

enum class ToolMode {
  kNone,      // text only
  kAuto,      // text, calls, or text and then calls; no text before calls if the text has a format
  kRequired,  // calls only; for a named function, only that one is allowed
};

enum class ThinkingMode {
  kNone,      // no thinking
  kMayBegin,  // the model may think first
  kBegun,     // the prompt ended within thinking
};

struct ToolGrammarRequest {
  ToolMode mode = ToolMode::kAuto;
  std::vector<GrammarTool> tools;
  std::vector<std::string> allowed;  // names of tools that may be called; empty: all
  bool parallel = true;              // more than one call is allowed
  ThinkingMode thinking = ThinkingMode::kNone;
  ValueExpr text = {};  // required format of a text answer; empty: any text
  bool text_is_regular =
      false;  // `text` calls no rules, so texts that the parser would take for a call can be excluded
};

struct ToolGrammar {
  Grammar grammar;
  std::vector<std::string> control_texts;  // without duplicates
};

/// Throws ConstraintError if no tool is allowed although one must be called, or if the grammar becomes
/// too large.
ToolGrammar build_tool_grammar(const ToolSyntax& syntax, const ThinkingSyntax& thinking,
                               const ToolGrammarRequest& request);

}  // namespace hearth
