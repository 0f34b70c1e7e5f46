// Error responses for requests that the engine refuses or does not complete.
//
// Used on HTTP threads by all endpoints that use the engine. No state.
#pragma once

#include <string_view>

#include "engine/engine.h"
#include "server/http/http_types.h"
#include "server/json/api_error.h"

namespace hearth {

/// Returns the response to a request that the engine refused. prompt_param: name of the parameter that
/// contains the request's texts.
HttpResponse refusal_response(Refusal refusal, std::string_view prompt_param, const EngineStatus& engine,
                              ErrorStyle style);

/// Returns the reason why a sequence of an accepted request has no answer. REQUIRES: event.reason is
/// kUnsatisfiable, kFailed, kTimedOut or kCancelled.
ApiError failure_of(const FinishedEvent& event);

/// The response to an accepted request that failed.
HttpResponse failure_response(const ApiError& failure, ErrorStyle style);

/// Returns the error for a client that left before anything was sent (status 499, which only the log shows).
ApiError client_left();

}  // namespace hearth
