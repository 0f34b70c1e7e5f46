// The last steps of every endpoint that generates: builds the engine's sequences, and the answer that sends
// their result. Called on the HTTP thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <variant>

#include "server/api/answer/answer_shape.h"
#include "server/api/answer/choices.h"
#include "server/api/answer/reply.h"
#include "server/api/api_context.h"
#include "server/api/openai/chat_request.h"
#include "server/http/http_types.h"
#include "server/http/response_writer.h"
#include "server/json/api_error.h"

namespace hearth {

/// Submits best_of sequences for every prompt. Returns the answer, or an error response if the engine refuses
/// the sequences or fails at once. Each choice of a prompt has its own seed: the request's seed plus the
/// choice's index, or a random number if the request has none. The text of a choice does not depend on the
/// other prompts and choices. Throws RequestError if a prompt does not fit, or if the model is an encoder.
Reply respond(const ApiContext& api, const HttpRequest& request, AnswerSpec spec,
              std::unique_ptr<AnswerShape> shape, const SequenceTemplate& common, const LengthRule& length);

/// Like respond(), for a conversation and the given shape.
Reply respond_to_chat(const ApiContext& api, const HttpRequest& request, const ChatRequest& asked,
                      std::unique_ptr<AnswerShape> shape);

/// Returns a number that identifies the request's client when the engine shares its slots among clients.
uint64_t client_number(const HttpRequest& request);

/// Returns a response with status 200 and this body.
HttpResponse json_response(const Json& json);

/// Returns the response to a RequestError that a handler threw. Call only inside a catch block. Rethrows
/// other exceptions, which the transport logs but does not show to the client.
HttpResponse response_to_exception(ErrorStyle style);

/// Runs a handler that answers at once, and turns RequestErrors into error responses.
template <typename Handler>
HttpResponse guarded(ErrorStyle style, Handler handler) {
  try {
    return handler();
  } catch (...) {
    return response_to_exception(style);
  }
}

/// Answers a request that may have to wait. read() reads the request, submits its work and returns the Reply;
/// if it throws a RequestError, the client gets that error. Before it waits for the answer, frees the
/// request's body and all that read() parsed, because hundreds of requests may wait, each with megabytes.
template <typename Read>
void read_and_answer(ResponseWriter& writer, ErrorStyle style, Read read) {
  Reply reply;
  try {
    reply = read();
  } catch (...) {
    reply = response_to_exception(style);
  }
  if (HttpResponse* const whole = std::get_if<HttpResponse>(&reply)) return writer.send(std::move(*whole));
  writer.release_body();
  std::get<std::unique_ptr<PendingAnswer>>(reply)->run(writer);
}

}  // namespace hearth
