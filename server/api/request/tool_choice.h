// A request's tools, and the tools that the answer may or must call.
//
// Called by the request parsers on the HTTP thread; the result is plain data.
#pragma once

#include "server/chat/chat_form.h"
#include "server/json/json.h"

namespace hearth {

/// Reads tools, tool_choice and parallel_tool_calls. Throws RequestError. Parameter schemas are checked
/// later, when they are compiled.
ToolChoice read_tool_choice(const RequestFields& fields);

}  // namespace hearth
