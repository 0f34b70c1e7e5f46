// Tools for models whose template knows nothing of them: shown in words, and calls and results written
// into the messages.
//
// Used on the HTTP thread where ToolSyntax::template_shows_tools is false; the syntax then is
// plain_tool_syntax().
#pragma once

#include <string>

#include "server/json/json.h"

namespace hearth {

/// JSON text as calls carry it: without line breaks; bytes that are no UTF-8 are replaced.
std::string one_line(const Json& json);

/// What the system message says of the tools: their JSON, one a line, and how a call is written.
std::string describe_tools(const Json& tools);

/// The conversation with everything about tools as text:
///  - the description joins the system message, or the first user message if there is none;
///  - the calls of an assistant's message join its content, in the plain syntax;
///  - the results, one message of the tool each, become one message of the user.
/// tools: null for none; then only past calls and results are rewritten.
Json with_tools_in_text(const Json& messages, const Json& tools);

}  // namespace hearth
