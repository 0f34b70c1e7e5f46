// The body of POST /v1/responses as plain data.
//
// Parsed on the HTTP thread. Most of the request is converted to a ChatRequest, from which it differs only in
// form.
#pragma once

#include <string>

#include "server/api/openai/chat_request.h"
#include "server/api/responses/response_tools.h"
#include "server/json/json.h"

namespace hearth {

struct ResponseRequest {
  /// The request as a chat. The messages are added later, when the items are converted.
  ChatRequest chat;
  Json input;                // items from read_input_items()
  std::string instructions;  // empty if absent
  std::string previous_id;   // id of the response that this response continues, or empty
  CalledTools called;        // tools whose calls are not plain function calls
  bool store = true;         // whether the response is stored
  bool background = false;   // whether the response is generated without a waiting client
  bool truncate = false;     // whether the oldest turns may be dropped
  Json echo;                 // members of the request that the response repeats
};

/// body: a JSON object. Throws RequestError.
ResponseRequest parse_response_request(const Json& body, const RequestLimits& limits);

}  // namespace hearth
