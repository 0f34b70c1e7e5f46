// The language of the answers that a request with tools allows, for the constraint on what is sampled:
// free text, then calls of the request's tools in the model's own syntax, with arguments that follow each
// tool's schema.
//
// Tags such as <tool_call> stand in the grammar as their bytes. In many vocabularies they are control
// tokens, whose text a constraint on bytes would not count: ToolGrammar::control_texts names them, so that
// the constraint can let those tokens stand for their text. Texts that end the answer are not in the
// grammar: the sequence ends with an end token where the grammar may end.
//
// Called once a request, on the HTTP thread. What builds arguments may throw ConstraintError, which passes
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

/// One parameter of a tool, for syntaxes that write each by itself.
struct GrammarParameter {
  std::string name;
  bool required = false;
  ValueExpr value;      // null: any text, which is written without quotes where the syntax does so
  ValueExpr text = {};  // instead of value where texts have no quotes; without calls of rules
};

struct GrammarTool {
  std::string name;
  ValueExpr arguments;  // the whole object, for kJsonObject, kTagged and kHarmony
  std::vector<GrammarParameter>
      parameters;  // in the order in which they are to be written; kParameters and kPython
};

enum class ToolMode {
  kNone,      // text only
  kAuto,      // text, calls, or text and then calls; no text before calls if it has a form
  kRequired,  // calls only; for a named function, with that one allowed
};

enum class ThinkingMode {
  kNone,      // no thinking
  kMayBegin,  // the model may think first
  kBegun,     // the prompt ended within thinking
};

struct ToolGrammarRequest {
  ToolMode mode = ToolMode::kAuto;
  std::vector<GrammarTool> tools;
  std::vector<std::string> allowed;  // names of those that may be called; empty: all
  bool parallel = true;              // more than one call
  ThinkingMode thinking = ThinkingMode::kNone;
  ValueExpr text = {};  // what an answer in text must look like; empty: any text
  bool text_is_regular =
      false;  // text has no calls of rules: what the parser takes for a call can be left out
};

struct ToolGrammar {
  Grammar grammar;
  std::vector<std::string> control_texts;  // each once
};

/// Throws ConstraintError if no tool is allowed although one must be called, or if the grammar becomes
/// too large.
ToolGrammar build_tool_grammar(const ToolSyntax& syntax, const ThinkingSyntax& thinking,
                               const ToolGrammarRequest& request);

}  // namespace hearth
