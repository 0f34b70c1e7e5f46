// Error responses to requests that the engine refuses or fails to complete.
//
// Used on HTTP threads by all endpoints that use the engine. Stateless.
#pragma once

#include <string_view>

#include "engine/engine.h"
#include "server/http/http_types.h"
#include "server/json/api_error.h"

namespace hearth {

/// Returns the response to a request that the engine refused. prompt_param: the parameter with the request's
/// texts.
HttpResponse refusal_response(Refusal refusal, std::string_view prompt_param, const EngineStatus& engine,
                              ErrorStyle style);

/// Returns the error of a sequence that ended without an answer. REQUIRES: event.reason is kUnsatisfiable,
/// kFailed, kTimedOut or kCancelled.
ApiError failure_of(const FinishedEvent& event);

/// Returns the response to an accepted request that failed.
HttpResponse failure_response(const ApiError& failure, ErrorStyle style);

/// Returns the error for a client that disconnected before anything was sent. Only the access log shows its
/// status, 499.
ApiError client_left();

}  // namespace hearth
