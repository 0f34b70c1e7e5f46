// OpenAI's predicted outputs: the request's `prediction`, a text that the client expects in the answer.
//
// Read on the HTTP thread. The engine uses the text as a draft (engine/generation/speculation.h), so an
// answer that repeats much of it is generated faster. The prediction does not change any token.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/tokenizer.h"
#include "server/json/json.h"

namespace hearth {

/// Reads {"type": "content", "content": TEXT}, where TEXT is a string or an array of text parts to be joined.
/// Returns nullopt if the member is absent, null or an empty object. Throws RequestError.
std::optional<std::string> read_prediction(const RequestFields& fields);

/// Returns the tokens of the prediction, at most as many as an answer can have. longest_token_bytes: see
/// prompt_tokens.h.
std::vector<int32_t> prediction_tokens(std::string_view text, size_t longest_token_bytes, int context_tokens,
                                       const Tokenizer& tokenizer);

}  // namespace hearth
