// The last steps of every endpoint that generates: sequences for the engine, and the response that sends what it makes of
// them. Called on the HTTP thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "server/api/answer/answer_shape.h"
#include "server/api/answer/choices.h"
#include "server/api/api_context.h"
#include "server/api/openai/chat_request.h"
#include "server/http/http_types.h"
#include "server/json/api_error.h"

namespace hearth {

/// Asks the engine for best_of sequences of every prompt, and makes the response from its first reaction. Choices of one
/// prompt differ by their seed; the same prompt, seed and choice give the same text whatever else is in the request. Throws
/// RequestError if a prompt does not fit, or if the model generates nothing.
HttpResponse respond(const ApiContext& api, const HttpRequest& request, AnswerSpec spec,
                     std::unique_ptr<AnswerShape> shape, const SequenceTemplate& common,
                     const LengthRule& length);

/// Answers a conversation. shape: of this answer. Throws RequestError.
HttpResponse respond_to_chat(const ApiContext& api, const HttpRequest& request, const ChatRequest& asked,
                             std::unique_ptr<AnswerShape> shape);

/// The number of a client among those that the engine shares its slots out to.
uint64_t client_number(const HttpRequest& request);

/// Status 200 with this body.
HttpResponse json_response(const Json& json);

/// The response to a RequestError that a handler has thrown. Call only while an exception is being handled. Others are
/// thrown again: the transport logs them, and tells the client nothing of what they say.
HttpResponse response_to_exception(ErrorStyle style);

/// Runs a handler and turns its refusals into error responses.
template <typename Handler>
HttpResponse guarded(ErrorStyle style, Handler handler) {
  try {
    return handler();
  } catch (...) {
    return response_to_exception(style);
  }
}

}  // namespace hearth
