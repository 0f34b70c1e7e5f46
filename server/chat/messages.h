// Checks the messages of a chat request and converts them to the form that chat templates expect.
//
// parse_chat_request() calls this on the HTTP thread.
#pragma once

#include "server/json/json.h"

namespace hearth {

/// Checks the request's `messages`. Throws a RequestError that names the invalid message and member. The
/// result has all members of each message, with these changes:
/// - the role developer becomes system, because templates do not know developer;
/// - content parts become one string; an assistant message with tool calls but no content gets the content
///   null;
/// - a null name, tool_call_id, reasoning_content or tool_calls is dropped, and so is an empty tool_calls;
/// - a tool call without type or arguments gets type "function" and arguments "{}";
/// - a tool message without a name gets the name of the function whose result it is.
/// Arguments stay text or an object, as sent. ChatTemplate converts them to the form that each template
/// renders.
Json read_messages(const Json& messages);

}  // namespace hearth
