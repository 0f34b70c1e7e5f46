// Converts the `tools` and `tool_choice` of Anthropic's API to a ToolChoice.
//
// Called by parse_messages_request on the HTTP thread.
#pragma once

#include "server/api/request/tool_choice.h"
#include "server/json/json.h"

namespace hearth {

/// Throws RequestError if the members are invalid or contain a tool that Anthropic defines. Such a tool runs
/// on Anthropic's servers, or only Anthropic's models know its parameters.
ToolChoice read_message_tools(const RequestFields& fields);

}  // namespace hearth
