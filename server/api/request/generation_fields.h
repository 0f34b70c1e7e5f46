// The parameters shared by completions and chat: sampling, stop strings, choices, streaming.
//
// Read by both request parsers on the HTTP thread; the result is plain data. Defaults are OpenAI's.
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

/// Limits against which a request is checked.
struct RequestLimits {
  int n_vocab = 0;                       // token ids are 0 .. n_vocab - 1
  const Tokenizer* tokenizer = nullptr;  // finds the tokens of texts; may be null, see read_sampling()
};

struct GenerationFields {
  std::string model;                    // empty: not given
  SamplingParams sampling;              // without the seed
  std::optional<uint64_t> seed;         // if absent, one is drawn for each sequence
  std::vector<std::string> stop;        // none of them empty
  int min_tokens = 0;                   // extension: no end token before this many generated tokens
  std::vector<int32_t> stop_token_ids;  // extension: more tokens that end the text
  AnswerFormat format;                  // the required format of the answer
  bool ignore_eos = false;              // extension: the model's end tokens do not end the text
  int n = 1;                            // choices per prompt
  /// Extension truncate_prompt_tokens: only this many tokens at the end of a longer prompt are kept; -1: as
  /// many as fit.
  std::optional<int64_t> keep_prompt_tokens = {};
  /// OpenAI's prediction: text that the client expects in the answer. It does not change any token.
  std::optional<std::string> prediction = {};
  int priority = 0;  // extension, as in vLLM: among one client's requests, those with lower values go first
  std::optional<double> timeout_seconds =
      {};  // extension: time after which the client no longer needs the answer
  bool stream = false;
  bool include_usage = false;  // only with stream
};

/// Reads the fields from a request's body. Throws RequestError, also for unsupported fields that would change
/// the answer. docs/api.md lists the extensions to OpenAI's specification.
GenerationFields read_generation_fields(const RequestFields& fields, const RequestLimits& limits);

/// Reads stop strings: a string or an array of strings; drops empty ones. Throws RequestError.
std::vector<std::string> read_stop_strings(const RequestFields& fields, const char* name);

/// Reads a list of token ids and checks each against the vocabulary. REQUIRES: ids is an array.
std::vector<int32_t> read_token_ids(const Json& ids, std::string_view param, const RequestLimits& limits);

/// Throws RequestError if the copies of logit_bias, one for each of n_sequences, would take too much memory.
void check_copies(const GenerationFields& generation, size_t n_sequences);

/// Reads only the `model` member; empty if absent. Called first, so that an unknown model is the first error
/// reported.
std::string read_model_name(const RequestFields& fields);

}  // namespace hearth
