// A POST /v1/messages body as a chat request.
//
// Parsed on the HTTP thread. Unsupported parameters are refused, not ignored; docs/api.md lists the
// parameters that are accepted but have no effect.
#pragma once

#include "server/api/openai/chat_request.h"
#include "server/json/json.h"

namespace hearth {

struct MessagesRequest {
  ChatRequest chat;
  bool shows_thinking = true;  // false: thinking blocks are empty (thinking.display "omitted")
};

/// Parses the body's JSON object. Throws RequestError.
MessagesRequest parse_messages_request(const Json& body, const RequestLimits& limits);

}  // namespace hearth
