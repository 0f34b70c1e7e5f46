// What clients are told when the engine does not accept a request, or does not bring it to its end.
//
// Used by all endpoints that ask the engine, on HTTP threads. No state.
#pragma once

#include <string_view>

#include "engine/engine.h"
#include "server/http/http_types.h"
#include "server/json/api_error.h"

namespace hearth {

/// The response to a request that the engine did not accept. prompt_param: the parameter that holds its texts.
HttpResponse refusal_response(Refusal refusal, std::string_view prompt_param, const EngineStatus& engine,
                              ErrorStyle style);

/// Why a sequence of an accepted request has no answer. REQUIRES: its reason is kUnsatisfiable, kFailed, kTimedOut or kCancelled.
ApiError failure_of(const FinishedEvent& event);

/// The response to a request that the engine had accepted and then failed.
HttpResponse failure_response(const ApiError& failure, ErrorStyle style);

/// The client has left before anything was sent (status 499, which only the log shows).
ApiError client_left();

}  // namespace hearth
