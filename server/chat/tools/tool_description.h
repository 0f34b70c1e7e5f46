// Supports tools in models whose template does not know them: describes tools in words, and writes calls and
// results into the messages.
//
// Used on the HTTP thread for syntaxes with ToolSyntax::Source::kServer.
#pragma once

#include <string>

#include "server/chat/tools/tool_syntax.h"
#include "server/json/json.h"

namespace hearth {

/// JSON text without line breaks, as in calls; invalid UTF-8 is replaced.
std::string one_line(const Json& json);

/// The system message's description of the tools: their JSON, one per line, and how to write a call.
/// REQUIRES: as with_tools_in_text().
std::string describe_tools(const Json& tools, const ToolSyntax& syntax);

/// Converts everything about tools in the conversation to text:
///  - the description is added to the system message, or to the first user message if there is none;
///  - the calls of an assistant message are added to its content, in the syntax;
///  - consecutive results, each a tool message, become one user message.
/// tools: null for none; then only past calls and results are converted. REQUIRES: the syntax has
/// Source::kServer, and calls without ids.
Json with_tools_in_text(const Json& messages, const Json& tools, const ToolSyntax& syntax);

}  // namespace hearth
