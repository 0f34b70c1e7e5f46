// Checks options against the model's limits, and requests against the contract of request.h, before they
// reach the engine thread. Also creates the sequences of a request. Called on the threads that construct the
// Engine and submit to it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/engine.h"
#include "engine/serving/request.h"
#include "engine/serving/sequence.h"
#include "engine/step/batch.h"

namespace hearth {

/// Returns `limits` if an engine with these options can run within them. Otherwise throws
/// std::invalid_argument; its text names the numbers that do not fit.
StepLimits checked_limits(const StepLimits& limits, const EngineOptions& options);

/// The most tokens of one sequence in a step of an engine with these options.
int step_tokens(const StepLimits& limits, const EngineOptions& options);

/// Throws std::invalid_argument for the first value outside the ranges of request.h. The API layer has
/// already checked client input, so this finds our own bugs and reports them on the submitting thread instead
/// of the engine's.
void check_request(const GenerationRequest& request, const StepLimits& limits);

/// Creates one Sequence per SequenceRequest. Sets accepted_at to now; equal prompts get the same
/// prompt_group.
std::vector<std::unique_ptr<Sequence>> make_sequences(GenerationRequest request, uint64_t request_id,
                                                      const std::shared_ptr<TokenStream>& stream);

}  // namespace hearth
