// Converts Anthropic's `tools` and `tool_choice` to a ToolChoice.
//
// Called by parse_messages_request on the HTTP thread.
#pragma once

#include "server/api/request/tool_choice.h"
#include "server/json/json.h"

namespace hearth {

/// Throws RequestError, also for Anthropic's own tools: those that its servers run, and those whose
/// parameters only its models know.
ToolChoice read_message_tools(const RequestFields& fields);

}  // namespace hearth
