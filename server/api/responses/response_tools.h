// The tools of a request to the Responses API. A tool has the members of its function, which the Chat API
// writes into an inner object "function".
//
// Called on the HTTP thread.
#pragma once

#include "server/api/request/tool_choice.h"
#include "server/json/json.h"

namespace hearth {

/// Reads tools, tool_choice and parallel_tool_calls. choice: receives the result. echo: receives the members
/// that the response repeats. Throws RequestError if a member is invalid, or contains a tool that the server
/// would have to run.
void read_response_tools(const RequestFields& fields, ToolChoice& choice, Json& echo);

}  // namespace hearth
