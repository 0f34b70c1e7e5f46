// The tools of a response: functions in the flat form that this API writes them in.
//
// Called by parse_response_request on the HTTP thread.
#pragma once

#include "server/api/request/tool_choice.h"
#include "server/json/json.h"

namespace hearth {

/// Reads tools, tool_choice and parallel_tool_calls into `choice`, and what the response repeats of them into `echo`. Throws
/// RequestError, also for tools that a server would have to run.
void read_response_tools(const RequestFields& fields, ToolChoice& choice, Json& echo);

}  // namespace hearth
