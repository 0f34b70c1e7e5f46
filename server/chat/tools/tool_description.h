// Supports tools for models whose template does not: describes the tools in words, and writes calls and
// results into the messages.
//
// Used on the HTTP thread for syntaxes with ToolSyntax::Source::kServer.
#pragma once

#include <string>

#include "server/chat/tools/tool_syntax.h"
#include "server/json/json.h"

namespace hearth {

/// Returns the value as JSON text on one line, the form used in calls. Replaces invalid UTF-8.
std::string one_line(const Json& json);

/// Returns the description of the tools for the system message: the JSON of each tool on one line, and how to
/// write a call. REQUIRES: the same as for with_tools_in_text().
std::string describe_tools(const Json& tools, const ToolSyntax& syntax);

/// Converts everything about tools in the conversation to text:
/// - the description is added to the system message, or if there is none, to the first user message; if there
///   is neither, it becomes a new system message;
/// - the calls of an assistant message are added to its content, in the form that `syntax` describes;
/// - consecutive tool messages, each with one result, become one user message.
/// tools: null if there are none; then only past calls and results are converted. REQUIRES: the syntax has
/// Source::kServer and writes calls without ids.
Json with_tools_in_text(const Json& messages, const Json& tools, const ToolSyntax& syntax);

}  // namespace hearth
