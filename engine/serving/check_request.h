// Checks before anything reaches the engine thread: options against the model's limits, and requests against the
// contract of request.h. Also makes the sequences of a request. Called on the threads that construct the Engine
// and submit to it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/engine.h"
#include "engine/serving/batch.h"
#include "engine/serving/request.h"
#include "engine/serving/sequence.h"

namespace hearth {

/// Returns the limits if an engine with these options can run within them. Throws std::invalid_argument, which
/// names the two numbers that do not fit, if not.
StepLimits checked_limits(const StepLimits& limits, const EngineOptions& options);

/// Throws std::invalid_argument for the first value outside the ranges of request.h. The API layer has checked what
/// clients send, so this finds bugs of our own; it reports them in the submitting thread and not in the engine's.
///
void check_request(const GenerationRequest& request, int n_vocab);

/// One Sequence per SequenceRequest, stamped as accepted now, equal prompts grouped.
std::vector<std::unique_ptr<Sequence>> make_sequences(GenerationRequest request, uint64_t request_id,
                                                      const std::shared_ptr<TokenStream>& stream);

}  // namespace hearth
