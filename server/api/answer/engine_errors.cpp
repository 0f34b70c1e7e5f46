// See the header.
#include "server/api/answer/engine_errors.h"

#include <string>
#include <utility>

#include "engine/serving/service_time.h"
#include "server/http/error_response.h"

namespace hearth {
namespace {

/// Suggested delay before a client repeats its request. After this delay, the stopping server should have
/// ended, so that the repeated request reaches a new server.
constexpr const char* kStoppingRetrySeconds = "5";

HttpResponse retry_response(const ApiError& error, std::string retry_seconds, ErrorStyle style) {
  HttpResponse response = error_response(error, style);
  response.headers.emplace_back("Retry-After", std::move(retry_seconds));
  return response;
}

}  // namespace

HttpResponse refusal_response(Refusal refusal, std::string_view prompt_param, const EngineStatus& engine,
                              ErrorStyle style) {
  if (engine.failed) {
    return retry_response(
        {.status = 503,
         .message = "The engine has failed and the server is ending; try again when it is back.",
         .param = {},
         .code = "engine_failed"},
        kStoppingRetrySeconds, style);
  }
  switch (refusal) {
    case Refusal::kQueueFull:
      return retry_response(
          {.status = 429,
           .message = "The server is busy and its queue is full; Retry-After says when to try "
                      "again.",
           .param = {},
           .code = "queue_full"},
          std::to_string(retry_after_seconds(engine.mean_service_seconds, engine.n_waiting, engine.n_slots)),
          style);
    case Refusal::kStopping:
      return retry_response({.status = 503,
                             .message = "The server is stopping; try again when it is back.",
                             .param = {},
                             .code = "server_stopping"},
                            kStoppingRetrySeconds, style);
    case Refusal::kContextExceeded:
      break;  // the handler has checked the length, but the engine's limit may be lower
  }
  return error_response({.status = 400,
                         .message = "Prompt and completion exceed the context of this model.",
                         .param = std::string(prompt_param),
                         .code = "context_length_exceeded"},
                        style);
}

ApiError failure_of(const FinishedEvent& event) {
  if (event.reason == FinishReason::kUnsatisfiable) {
    return {.status = 400,
            .message = "The answer cannot be completed as requested: " + event.error,
            .param = {},
            .code = "unsatisfiable_request"};
  }
  if (event.reason == FinishReason::kFailed) {
    return {
        .status = 500, .message = "The engine failed: " + event.error, .param = {}, .code = "engine_failed"};
  }
  if (event.reason == FinishReason::kTimedOut) {
    return {.status = 504,
            .message =
                "The request's 'timeout' passed before its first token was generated; allow more time, or "
                "send it again when the server has less to do.",
            .param = "timeout",
            .code = "timeout"};
  }
  return {.status = 503,
          .message = "The server is stopping and has cut this answer short; send the request again.",
          .param = {},
          .code = "server_stopping"};
}

HttpResponse failure_response(const ApiError& failure, ErrorStyle style) {
  return failure.status == 503 ? retry_response(failure, kStoppingRetrySeconds, style)
                               : error_response(failure, style);
}

ApiError client_left() {
  return {.status = 499,
          .message = "The client closed its side of the connection before the answer was complete.",
          .param = {},
          .code = "client_left"};
}

}  // namespace hearth
