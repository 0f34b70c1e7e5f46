// The parameters that completions and chat share: sampling, stop strings, choices, streaming.
//
// Read by both request parsers on the HTTP thread; plain data afterwards. Defaults are OpenAI's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/serving/request.h"
#include "engine/tokenizer/tokenizer.h"
#include "server/api/request/constraint_fields.h"
#include "server/json/json.h"

namespace hearth {

/// What a request is checked against.
struct RequestLimits {
  int n_vocab = 0;                       // token ids are 0 .. n_vocab - 1
  const Tokenizer* tokenizer = nullptr;  // finds the tokens of texts; null: see read_sampling
};

struct GenerationFields {
  std::string model;                    // empty: not named
  SamplingParams sampling;              // without the seed
  std::optional<uint64_t> seed;         // absent: one is drawn for every sequence
  std::vector<std::string> stop;        // none of them empty
  int min_tokens = 0;                   // extension: no end token before so many others
  std::vector<int32_t> stop_token_ids;  // extension: tokens that end the text like the model's own end tokens
  AnswerFormat format;                  // what the answer must look like
  bool ignore_eos = false;              // extension: the model's own end tokens do not end the text
  int n = 1;                            // choices for every prompt
  /// Extension truncate_prompt_tokens: of longer prompts only the last so many tokens are used; -1: as many as fit.
  std::optional<int64_t> keep_prompt_tokens = {};
  /// OpenAI's prediction: text that the client expects in the answer. It changes no token.
  std::optional<std::string> prediction = {};
  int priority = 0;  // extension: of one client's requests, those with a lower one come first, as vLLM has it
  std::optional<double> timeout_seconds = {};  // extension: when the answer is of no use any more
  bool stream = false;
  bool include_usage = false;  // only with stream
};

/// Reads the fields from a request's body. Throws RequestError, also for fields of other servers that would change the
/// answer and are not supported here. docs/api.md lists the extensions to OpenAI's specification.
GenerationFields read_generation_fields(const RequestFields& fields, const RequestLimits& limits);

/// Stop strings: a string or an array of them; empty ones are left out. Throws RequestError.
std::vector<std::string> read_stop_strings(const RequestFields& fields, const char* name);

/// A list of token ids, each checked against the vocabulary. REQUIRES: ids is an array.
std::vector<int32_t> read_token_ids(const Json& ids, std::string_view param, const RequestLimits& limits);

/// Throws RequestError if logit_bias would take too much memory: each of the n_sequences has a copy of it.
void check_copies(const GenerationFields& generation, size_t n_sequences);

/// The `model` member alone; empty if absent. It is read before the rest, so that an unknown model is the
/// first error to be reported.
std::string read_model_name(const RequestFields& fields);

}  // namespace hearth
