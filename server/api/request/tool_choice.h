// A request's tools, and which of them the answer may or must call.
//
// Called by the request parsers on the HTTP thread; plain data afterwards.
#pragma once

#include <string>
#include <vector>

#include "server/chat/tools/tool_grammar.h"
#include "server/json/json.h"

namespace hearth {

struct ToolChoice {  // NOLINT(bugprone-exception-escape): a Json that holds nothing does not throw
  Json tools;        // an array as sent; null: none, or tool_choice "none"
  ToolMode mode = ToolMode::kNone;   // kNone if and only if tools is null
  std::vector<std::string> allowed;  // names of the tools that may be called; empty: all
  bool parallel = true;              // an answer may have more than one call
};

/// Reads tools, tool_choice and parallel_tool_calls. Throws RequestError. Parameter schemas are checked
/// later, when they are compiled.
ToolChoice read_tool_choice(const RequestFields& fields);

}  // namespace hearth
