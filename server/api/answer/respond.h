// The last steps of every endpoint that generates text: submits sequences to the engine, and creates the
// Answer that sends the result. Called on HTTP threads.
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
/// the sequences or fails at once. Choice i of every prompt has the request's seed + i as its seed, or a
/// random seed if the request has none. The text of a choice does not depend on other prompts or choices.
/// Throws RequestError if a prompt does not fit into the context, or if the model is an encoder.
Reply respond(const ApiContext& api, const HttpRequest& request, AnswerSpec spec,
              std::unique_ptr<AnswerShape> shape, const SequenceTemplate& common, const LengthRule& length);

/// Like respond(), for the conversation of a chat request.
Reply respond_to_chat(const ApiContext& api, const HttpRequest& request, const ChatRequest& asked,
                      std::unique_ptr<AnswerShape> shape);

/// Returns a number that identifies the request's client. The engine shares its slots fairly among clients,
/// which it distinguishes by this number.
uint64_t client_number(const HttpRequest& request);

/// Returns a response with status 200 and this body.
HttpResponse json_response(const Json& json);

/// Returns the response to a RequestError that a handler threw. Rethrows other exceptions, which the HTTP
/// server logs but does not show to the client. Call only inside a catch block.
HttpResponse response_to_exception(ErrorStyle style);

/// Calls a handler that answers immediately. A RequestError becomes an error response.
template <typename Handler>
HttpResponse guarded(ErrorStyle style, Handler handler) {
  try {
    return handler();
  } catch (...) {
    return response_to_exception(style);
  }
}

/// Answers a request that may have to wait. read(): parses the request, submits its work and returns the
/// Reply. A RequestError becomes an error response. The request's body is freed before the wait, because
/// hundreds of requests may wait, and each body may have megabytes.
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
