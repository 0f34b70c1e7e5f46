// Reads a request's sampling parameters: those of OpenAI's API, llama.cpp and vLLM.
// engine/sampling/sampling_params.h defines the order in which they apply.
//
// Called on the HTTP thread.
#pragma once

#include <cstdint>

#include "engine/sampling/sampling_params.h"
#include "engine/tokenizer/tokenizer.h"
#include "server/json/json.h"

namespace hearth {

/// Reads all sampling parameters except the seed. defaults: the values of parameters that the request does
/// not have, such as those of model_sampling(). tokenizer: finds the tokens of DRY's sequence breakers; if
/// null, dry_sequence_breakers are checked but not used. Throws RequestError.
SamplingParams read_sampling(const RequestFields& fields, const SamplingParams& defaults, int n_vocab,
                             const Tokenizer* tokenizer);

}  // namespace hearth
