// Reads a request's sampling parameters: OpenAI's, and extensions known from llama.cpp and vLLM.
// engine/sampling/sampling_params.h states the order in which they apply.
//
// Called by the request parsers on the HTTP thread.
#pragma once

#include <cstdint>

#include "engine/sampling/sampling_params.h"
#include "engine/tokenizer/tokenizer.h"
#include "server/json/json.h"

namespace hearth {

/// Reads everything except the seed. Throws RequestError. tokenizer: finds the tokens of DRY's sequence
/// breakers; if it is null, dry_sequence_breakers are checked but not used.
SamplingParams read_sampling(const RequestFields& fields, int n_vocab, const Tokenizer* tokenizer);

}  // namespace hearth
