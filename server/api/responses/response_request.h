// A POST /v1/responses body as plain data.
//
// Parsed on the HTTP thread. Such a request means the same as a chat request (ChatRequest) and differs from
// it only in form.
#pragma once

#include <string>

#include "server/api/openai/chat_request.h"
#include "server/json/json.h"

namespace hearth {

struct ResponseRequest {
  /// The whole request except the messages, which are made from the items later.
  ChatRequest chat;
  Json input;                // items from read_input_items()
  std::string instructions;  // empty: none
  std::string previous_id;   // id of the response that this one continues; empty: none
  bool store = true;         // store the response
  bool background = false;   // the client does not wait for the response, which is generated like a stream
  bool truncate = false;     // the oldest turns may be dropped
  Json echo;                 // members that the response repeats from its request
};

/// Parses the body's JSON object. Throws RequestError.
ResponseRequest parse_response_request(const Json& body, const RequestLimits& limits);

}  // namespace hearth
