// Checks the messages of a chat request and converts them to the form that chat templates expect.
//
// Called on the HTTP thread.
#pragma once

#include "server/json/json.h"

namespace hearth {

/// Checks the `messages` of a request. Throws RequestError, which names the invalid message and member.
/// Returns the messages with these changes:
/// - the role developer becomes system, because templates do not know developer;
/// - content parts become one string; without content, an assistant message with tool calls gets content
///   null;
/// - a null name, tool_call_id, reasoning_content or tool_calls is removed, and so is an empty tool_calls;
/// - a tool call without type or arguments gets type "function" and arguments "{}";
/// - a tool message without a name gets the name of the called function.
/// Arguments are text or an object, as sent. ChatTemplate converts them to the form that the template
/// renders.
Json read_messages(const Json& messages);

}  // namespace hearth
