// The parameters that completions and chat share: sampling, stop strings, choices, streaming.
//
// Read by both request parsers on the HTTP thread; plain data afterwards. Defaults are OpenAI's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/serving/request.h"
#include "server/api/request_fields.h"

namespace hearth {

/// What a request is checked against.
struct RequestLimits {
  int n_vocab = 0;  // token ids are 0 .. n_vocab - 1
};

struct GenerationFields {
  std::string model;                    // empty: not named
  SamplingParams sampling;              // all but the seed
  std::optional<uint64_t> seed;         // absent: one is drawn for every sequence
  std::vector<std::string> stop;        // none of them empty
  std::vector<int32_t> stop_token_ids;  // extension: end like the model's own end tokens
  bool ignore_eos = false;              // extension: only stop strings and limits end the text
  int n = 1;                            // choices for every prompt
  bool stream = false;
  bool include_usage = false;  // only with stream
};

/// Reads them. Throws RequestError.
/// Extensions beside OpenAI's: top_k, min_p, repetition_penalty (or repeat_penalty), stop_token_ids,
/// ignore_eos.
GenerationFields read_generation_fields(const RequestFields& fields, const RequestLimits& limits);

/// A list of token ids, each checked against the vocabulary. REQUIRES: ids is an array.
std::vector<int32_t> read_token_ids(const Json& ids, std::string_view param, const RequestLimits& limits);

/// Refuses a logit_bias that would take too much memory, once it is known how many sequences get a copy.
void check_copies(const GenerationFields& generation, size_t n_sequences);

/// The `model` member alone, read before the rest: an unknown model is the first thing to say. Empty if
/// absent.
std::string read_model_name(const RequestFields& fields);

}  // namespace hearth
