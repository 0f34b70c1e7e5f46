// Converts the body of POST /v1/messages to a ChatRequest.
//
// Parsed on the HTTP thread. Unsupported parameters are refused, not ignored. docs/api.md lists the
// parameters that are accepted but have no effect.
#pragma once

#include "server/api/openai/chat_request.h"
#include "server/json/json.h"

namespace hearth {

struct MessagesRequest {
  ChatRequest chat;
  bool shows_thinking = true;  // if false, thinking blocks are empty (thinking.display "omitted")
};

/// body: a JSON object. Throws RequestError.
MessagesRequest parse_messages_request(const Json& body, const RequestLimits& limits);

}  // namespace hearth
