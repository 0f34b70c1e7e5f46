// The meaning of one chat request's tools, formats and thinking for the served model.
//
// ChatDialect decides it once per request, and everything else follows it: with_tools_in_text() tells the
// model its tools and writes past calls, build_tool_grammar() constrains the answer, and ToolCallParser reads
// it. So these cannot disagree about how calls are written, which calls are allowed, or whether the answer
// begins within thinking.
//
// Plain data, not changed after ChatDialect has returned it; any thread may read it.
#pragma once

#include <string>
#include <vector>

#include "server/chat/answer_format.h"
#include "server/chat/chat_syntax.h"
#include "server/json/json.h"

namespace hearth {

enum class ToolMode {
  kNone,      // text only
  kAuto,      // text, calls, or text and then calls; no text before calls if the text has a format
  kRequired,  // calls only; for a named function, only that one is allowed
};

struct ToolChoice {  // NOLINT(bugprone-exception-escape): a Json that holds nothing does not throw
  Json tools = {};   // an array as sent; null: none, or tool_choice "none"
  ToolMode mode = ToolMode::kNone;        // kNone if and only if tools is null
  std::vector<std::string> allowed = {};  // names of the tools that may be called; empty: all
  bool parallel = true;                   // an answer may have more than one call
};

struct ChatForm {            // NOLINT(bugprone-exception-escape): a Json that holds nothing does not throw
  ChatSyntax syntax = {};    // the model's
  ToolChoice choice = {};    // the request's
  AnswerFormat format = {};  // of the answer's text
  ThinkingMode thinking = ThinkingMode::kNone;  // follows from the prompt

  bool may_call() const { return choice.mode != ToolMode::kNone; }
  bool has_format() const { return format.kind != AnswerFormat::Kind::kText; }
  /// Whether answers may consist of more than text, so that they need a ChatReader.
  bool has_parts() const { return syntax.thinks() || may_call(); }
};

}  // namespace hearth
