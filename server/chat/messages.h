// Checks the messages of a chat request and converts them to the form that chat templates expect.
//
// Used by parse_chat_request on the HTTP thread.
#pragma once

#include "server/json/json.h"

namespace hearth {

/// Checks the request's `messages`. Throws RequestError that names the wrong message and member. The result
/// has all members of each message, with these changes:
///  - the role developer becomes system, because templates know only that;
///  - content parts become one string; an assistant message with tool_calls may have none, then null;
///  - a null name, tool_call_id, reasoning_content or tool_calls is dropped, and so is an empty tool_calls;
///  - a tool call without type or arguments gets type "function" and arguments "{}";
///  - a tool message without a name gets the name of the call that it answers.
/// Arguments stay text or object, as sent: ChatTemplate converts them to the form that each template renders.
Json read_messages(const Json& messages);

}  // namespace hearth
