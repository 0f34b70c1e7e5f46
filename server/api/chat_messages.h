// The messages of a chat request, checked and brought into the shape that chat templates expect.
//
// Used by parse_chat_request on the HTTP thread.
#pragma once

#include "server/api/json_body.h"

namespace hearth {

/// messages: the request's value of that name. Throws RequestError naming the message and member at fault.
/// Each message keeps all its members, except: role developer becomes system (templates know no other),
/// content parts become one string, a null name, tool_call_id or tool_calls and empty tool_calls are left
/// out.
Json read_messages(const Json& messages);

}  // namespace hearth
