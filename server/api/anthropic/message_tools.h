// Converts Anthropic's `tools` and `tool_choice` to a ToolChoice.
//
// Called by parse_messages_request on the HTTP thread.
#pragma once

#include "server/api/request/tool_choice.h"
#include "server/json/json.h"

namespace hearth {

/// Throws RequestError, including for tools that the client does not run: those that Anthropic's servers run,
/// and those whose parameters only Anthropic's models know.
ToolChoice read_message_tools(const RequestFields& fields);

}  // namespace hearth
