// The tools, the answer format and the thinking of one chat request, in the form that fits the served model.
//
// ChatDialect creates a ChatForm for each request. with_tools_in_text() uses it to write tools and past calls
// into the prompt, build_tool_grammar() to constrain the answer, and ToolCallParser to parse the answer. All
// three therefore agree on how calls are written, which calls are allowed, and whether the answer begins with
// thinking.
//
// Plain data that does not change. Any thread may read it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/chat/answer_format.h"
#include "server/chat/chat_syntax.h"
#include "server/json/json.h"

namespace hearth {

enum class ToolMode {
  kNone,      // text only
  kAuto,      // text, calls, or text and then calls; with a required format, either text or calls
  kRequired,  // only calls; only of one function if the request names it
};

struct ToolChoice {  // NOLINT(bugprone-exception-escape): a Json that holds nothing does not throw
  Json tools = {};   // the array from the request; null if there are no tools or tool_choice is "none"
  ToolMode mode = ToolMode::kNone;        // kNone if and only if tools is null
  std::vector<std::string> allowed = {};  // names of the tools that may be called; empty: all
  Json schemas =
      {};  // schemas that are enforced in place of those in `tools`, by name; null if there are none
  bool parallel = true;  // whether an answer may have more than one call
};

struct ChatForm {            // NOLINT(bugprone-exception-escape): a Json that holds nothing does not throw
  ChatSyntax syntax = {};    // the model's syntax
  ToolChoice choice = {};    // the request's tools
  AnswerFormat format = {};  // format of the answer's text
  ThinkingMode thinking = ThinkingMode::kNone;  // determined by the prompt
  std::optional<int> thinking_budget = {};      // maximum number of tokens of thinking; absent: no limit

  bool may_call() const { return choice.mode != ToolMode::kNone; }
  bool has_format() const { return format.kind != AnswerFormat::Kind::kText; }
  /// Whether an answer may contain thinking or calls, so that a ChatReader must split it.
  bool has_parts() const { return syntax.thinks() || may_call(); }
};

}  // namespace hearth
