// Reads a request's tools, and which of them the answer may or must call.
//
// Called on the HTTP thread. The result is plain data.
#pragma once

#include "server/chat/chat_form.h"
#include "server/json/json.h"

namespace hearth {

/// Reads tools, tool_choice and parallel_tool_calls. Throws RequestError. The schemas of parameters are
/// checked later, when they are compiled.
ToolChoice read_tool_choice(const RequestFields& fields);

}  // namespace hearth
