// Anthropic's `system` and `messages` as a conversation of the kind that chat templates know.
//
// Called by parse_messages_request on the HTTP thread.
#pragma once

#include "server/json/json.h"

namespace hearth {

/// Reads both members of the request. Throws RequestError, which names the block that is wrong. The result is as
/// read_messages() makes it:
///  - the system text is the first message;
///  - blocks of text are joined by newlines, and so are messages in a row of one role, which are one turn to Anthropic;
///  - thinking becomes reasoning_content; redacted thinking, which nobody but Anthropic can read, is left out;
///  - each tool_use becomes a tool call, each tool_result a message of the role tool. Results that are errors begin with
///    "Error: ".
Json read_conversation(const RequestFields& fields);

}  // namespace hearth
