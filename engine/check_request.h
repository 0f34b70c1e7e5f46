// Checks engine options against the model's limits, and requests against the ranges that request.h states.
// Both checks run before the engine thread sees these values. Also creates the sequences of a request. Called
// on the thread that constructs the Engine and on the threads that submit requests.
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
/// std::invalid_argument with a message that names the conflicting numbers.
StepLimits checked_limits(const StepLimits& limits, const EngineOptions& options);

/// Returns the largest number of tokens that one sequence can have in a step, given these options.
int step_tokens(const StepLimits& limits, const EngineOptions& options);

/// Throws std::invalid_argument for the first value outside the ranges of request.h. The API layer has
/// already checked client input, so an invalid value here is a bug in Hearth. The submitting thread makes
/// this check, because an invalid value could end the engine thread.
void check_request(const GenerationRequest& request, const StepLimits& limits);

/// Creates one Sequence per SequenceRequest. Sets accepted_at to the current time, and gives sequences with
/// equal prompts the same prompt_group.
std::vector<std::unique_ptr<Sequence>> make_sequences(GenerationRequest request, uint64_t request_id,
                                                      const std::shared_ptr<TokenStream>& stream);

}  // namespace hearth
