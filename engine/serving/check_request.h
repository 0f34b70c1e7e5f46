// What must hold before anything reaches the engine thread: options against the model's limits, requests
// against the contract of request.h; and the making of sequences from a request. Called on the threads that
// construct and submit.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/engine.h"
#include "engine/serving/batch.h"
#include "engine/serving/request.h"
#include "engine/serving/sequence.h"

namespace hearth {

/// Returns the limits if an engine with these options can run within them; else throws std::invalid_argument
/// that says which two numbers do not fit.
StepLimits checked_limits(const StepLimits& limits, const EngineOptions& options);

/// Throws std::invalid_argument with the first breach of request.h's ranges. The API layer has checked what
/// clients send, so this reports bugs of ours; but it reports them in the submitting thread instead of in the
/// engine.
void check_request(const GenerationRequest& request, int n_vocab);

/// One Sequence per SequenceRequest, stamped as accepted now, equal prompts grouped.
std::vector<std::unique_ptr<Sequence>> make_sequences(GenerationRequest request, uint64_t request_id,
                                                      const std::shared_ptr<TokenStream>& stream);

}  // namespace hearth
