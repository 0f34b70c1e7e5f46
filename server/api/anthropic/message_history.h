// Converts Anthropic's `system` and `messages` to a conversation for chat templates.
//
// Called by parse_messages_request on the HTTP thread.
#pragma once

#include "server/json/json.h"

namespace hearth {

/// Reads both members of the request. Throws RequestError, which names the block with the mistake. The result
/// has the form of read_messages():
///  - the system text is the first message;
///  - text blocks are joined by newlines, and so are consecutive messages of one role, which Anthropic treats
///    as one turn;
///  - thinking becomes reasoning_content; redacted thinking, which only Anthropic can read, is dropped;
///  - each tool_use becomes a tool call, and each tool_result becomes a message with role tool. Error results
///    begin with "Error: ".
Json read_conversation(const RequestFields& fields);

}  // namespace hearth
