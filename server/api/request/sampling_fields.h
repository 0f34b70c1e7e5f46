// The parameters of a request that choose how tokens are drawn: OpenAI's, and those that llama.cpp and vLLM have taught
// clients. In which order they apply is said in engine/sampling/sampling_params.h.
//
// Called by the request parsers on the HTTP thread.
#pragma once

#include <cstdint>

#include "engine/sampling/sampling_params.h"
#include "engine/tokenizer/tokenizer.h"
#include "server/json/json.h"

namespace hearth {

/// Everything but the seed. Throws RequestError. tokenizer: finds the tokens that break repetitions for DRY; may be null,
/// then dry_sequence_breakers are checked and not used.
SamplingParams read_sampling(const RequestFields& fields, int n_vocab, const Tokenizer* tokenizer);

}  // namespace hearth
