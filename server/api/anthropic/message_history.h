// Converts the `system` and `messages` of Anthropic's API to a conversation for chat templates.
//
// Called by parse_messages_request on the HTTP thread.
#pragma once

#include "server/json/json.h"

namespace hearth {

/// Reads `system` and `messages`. Throws RequestError, which names the faulty block. The result has the form
/// of read_messages():
/// - the system text is the first message;
/// - text blocks, and consecutive messages of one role, are joined by newlines, because Anthropic's API
///   treats them as one turn;
/// - thinking becomes reasoning_content; redacted thinking, which only Anthropic can read, is dropped;
/// - each tool_use becomes a tool call, and each tool_result becomes a message with role tool; error results
///   begin with "Error: ".
Json read_conversation(const RequestFields& fields);

}  // namespace hearth
