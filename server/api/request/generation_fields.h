// The parameters that completions and chats share: sampling, stop strings, choices, streaming.
//
// Read on the HTTP thread. The result is plain data. Defaults are those of OpenAI's API,
// except sampling parameters that the model's authors recommend.
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

/// Facts about the model against which a request is checked.
struct RequestLimits {
  int n_vocab = 0;                       // token ids are 0 .. n_vocab - 1
  const Tokenizer* tokenizer = nullptr;  // finds the tokens of texts; may be null (see read_sampling())
  /// Values of parameters that a request does not have, as recommended for the model; null: OpenAI's.
  const SamplingParams* sampling = nullptr;
};

struct GenerationFields {
  std::string model;                    // empty if absent
  SamplingParams sampling;              // all sampling parameters except the seed
  std::optional<uint64_t> seed;         // if absent, each sequence gets a random seed
  std::vector<std::string> stop;        // none is empty
  int min_tokens = 0;                   // extension: minimum number of generated tokens before an end token
  std::vector<int32_t> stop_token_ids;  // extension: additional tokens that end the text
  AnswerFormat format;                  // the required format of the answer
  bool ignore_eos = false;              // extension: the model's end tokens do not end the text
  int n = 1;                            // choices per prompt
  /// Extension truncate_prompt_tokens: only this many tokens at the end of a longer prompt are kept; -1: as
  /// many as leave room for the answer (truncate_prompt()).
  std::optional<int64_t> keep_prompt_tokens = {};
  /// OpenAI's prediction: a text that the client expects in the answer. Does not change any token.
  std::optional<std::string> prediction = {};
  int priority = 0;  // extension of vLLM: lower values go first among a client's requests
  std::optional<double> timeout_seconds = {};  // extension: the request is given up after this time
  bool stream = false;
  bool include_usage = false;  // only if `stream` is true
};

/// Reads the fields of a request's body. Throws RequestError if a field is invalid, or if an unsupported
/// field would change the answer. docs/api.md lists the extensions to OpenAI's specification.
GenerationFields read_generation_fields(const RequestFields& fields, const RequestLimits& limits);

/// Reads stop strings: one string or an array of strings. Drops empty strings. Throws RequestError.
std::vector<std::string> read_stop_strings(const RequestFields& fields, const char* name);

/// Reads token ids and checks that the vocabulary contains them. Throws RequestError. REQUIRES: ids is an
/// array.
std::vector<int32_t> read_token_ids(const Json& ids, std::string_view param, const RequestLimits& limits);

/// Throws RequestError if n_sequences copies of logit_bias would use too much memory.
void check_copies(const GenerationFields& generation, size_t n_sequences);

/// Returns the member `model`, empty if absent, and reads no other member. Called first, so that an unknown
/// model is reported before other errors.
std::string read_model_name(const RequestFields& fields);

}  // namespace hearth
