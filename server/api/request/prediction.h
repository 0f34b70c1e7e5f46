// Predicted outputs of OpenAI's API: the request's `prediction` is a text that the client expects in the
// answer.
//
// Read on the HTTP thread. The engine uses the text as a draft (engine/generation/speculation.h). An answer
// that repeats much of the text is generated faster. The prediction does not change any token.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/tokenizer.h"
#include "server/json/json.h"

namespace hearth {

/// Reads {"type": "content", "content": TEXT}. TEXT is a string, or an array of text parts that are joined.
/// Returns nullopt if the member is absent, null or an empty object. Throws RequestError.
std::optional<std::string> read_prediction(const RequestFields& fields);

/// Returns the prediction's tokens, but not more than an answer can have. longest_token_bytes: the result of
/// longest_token_bytes() in prompt_tokens.h.
std::vector<int32_t> prediction_tokens(std::string_view text, size_t longest_token_bytes, int context_tokens,
                                       const Tokenizer& tokenizer);

}  // namespace hearth
