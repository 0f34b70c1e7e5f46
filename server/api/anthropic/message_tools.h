// Converts Anthropic's `tools` and `tool_choice` to a ToolChoice.
//
// Called by parse_messages_request on the HTTP thread.
#pragma once

#include "server/api/request/tool_choice.h"
#include "server/json/json.h"

namespace hearth {

/// Throws RequestError, also for tools that the client does not run itself: tools that Anthropic's servers
/// run, and tools whose parameters only Anthropic's models know.
ToolChoice read_message_tools(const RequestFields& fields);

}  // namespace hearth
