// A POST /v1/responses body as plain data.
//
// Parsed on the HTTP thread. What it means is the same as a chat's (ChatRequest); what differs is how it is written.
#pragma once

#include <string>

#include "server/api/openai/chat_request.h"
#include "server/json/json.h"

namespace hearth {

struct ResponseRequest {
  /// All but the messages, which come of the items.
  ChatRequest chat;
  Json input;                // items, as read_input_items() gives them
  std::string instructions;  // empty: none
  std::string previous_id;   // of the response that this one goes on from; empty: none
  bool store = true;         // the response is kept
  bool background = false;   // its client does not wait for it; then it is made like a stream
  bool truncate = false;     // the oldest turns may be dropped
  Json echo;                 // the members by which the response repeats its request
};

/// Parses the body's JSON object. Throws RequestError.
ResponseRequest parse_response_request(const Json& body, const RequestLimits& limits);

}  // namespace hearth
