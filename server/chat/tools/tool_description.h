// Supports tools for models whose template does not show tools or calls: writes the tools, past calls and
// results into the messages as text.
//
// Runs on HTTP threads.
#pragma once

#include <string>

#include "server/chat/tools/tool_syntax.h"
#include "server/json/json.h"

namespace hearth {

/// Returns the value as JSON text on one line, as in calls. Replaces invalid UTF-8.
std::string one_line(const Json& json);

/// Returns the text that describes the tools in the system message: the JSON of each tool on one line, and
/// instructions for writing a call. REQUIRES: as for with_tools_in_text().
std::string describe_tools(const Json& tools, const ToolSyntax& syntax);

/// Returns the messages with everything about tools converted to text:
/// - the tools are described in the system message; without one, in the first user message; without either,
///   in a new system message;
/// - the calls of an assistant message are added to its content, in the form that `syntax` describes;
/// - consecutive tool messages, each with one result, become one user message.
/// tools: null if the request has none; past calls and results are still converted. REQUIRES: the syntax has
/// Source::kServer and writes calls without ids.
Json with_tools_in_text(const Json& messages, const Json& tools, const ToolSyntax& syntax);

/// Returns the messages with past calls added to their content, as above; nothing else changes. REQUIRES:
/// ToolSyntax::calls_in_text.
Json with_calls_in_text(const Json& messages, const ToolSyntax& syntax);

}  // namespace hearth
