// How the served model handles the tools, the answer format and the thinking of one chat request.
//
// ChatDialect decides this once per request. Everything else uses its result: with_tools_in_text() describes
// the tools to the model and writes past calls, build_tool_grammar() constrains the answer, and
// ToolCallParser reads the answer. These three therefore agree on how calls are written, which calls are
// allowed, and whether the answer begins inside the model's thinking.
//
// Plain data that does not change after ChatDialect has returned it. Any thread may read it.
#pragma once

#include <string>
#include <vector>

#include "server/chat/answer_format.h"
#include "server/chat/chat_syntax.h"
#include "server/json/json.h"

namespace hearth {

enum class ToolMode {
  kNone,      // text only
  kAuto,      // text, calls, or text followed by calls; if the text must have a format, only one of the two
  kRequired,  // only calls; if the request names a function, only calls of that function
};

struct ToolChoice {  // NOLINT(bugprone-exception-escape): a Json that holds nothing does not throw
  Json tools = {};   // the array from the request; null if there are no tools or tool_choice is "none"
  ToolMode mode = ToolMode::kNone;        // kNone if and only if tools is null
  std::vector<std::string> allowed = {};  // names of the tools that may be called; empty if all may be called
  bool parallel = true;                   // whether an answer may have more than one call
};

struct ChatForm {            // NOLINT(bugprone-exception-escape): a Json that holds nothing does not throw
  ChatSyntax syntax = {};    // the model's syntax
  ToolChoice choice = {};    // the request's tools
  AnswerFormat format = {};  // format of the answer's text
  ThinkingMode thinking = ThinkingMode::kNone;  // determined by the prompt

  bool may_call() const { return choice.mode != ToolMode::kNone; }
  bool has_format() const { return format.kind != AnswerFormat::Kind::kText; }
  /// Whether answers may contain thinking or calls in addition to text, so that a ChatReader must split them.
  bool has_parts() const { return syntax.thinks() || may_call(); }
};

}  // namespace hearth
