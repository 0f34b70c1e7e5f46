// The tools of a response: functions in the Responses API's flat form.
//
// Called by parse_response_request on the HTTP thread.
#pragma once

#include "server/api/request/tool_choice.h"
#include "server/json/json.h"

namespace hearth {

/// Reads tools, tool_choice and parallel_tool_calls into `choice`, and a copy of them for the response into
/// `echo`. Throws RequestError, also for tools that the server would have to run.
void read_response_tools(const RequestFields& fields, ToolChoice& choice, Json& echo);

}  // namespace hearth
