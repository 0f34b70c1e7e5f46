// OpenAI's predicted outputs: the member `prediction` of a request, text that the client expects in the answer.
//
// Read on the HTTP thread. The engine drafts from it (engine/serving/speculation.h), so an answer that repeats much of it comes
// faster. It changes no token.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/tokenizer.h"
#include "server/json/json.h"

namespace hearth {

/// The text of {"type": "content", "content": TEXT}, where TEXT is a string or an array of text parts, which are joined.
/// nullopt if the member is absent, null or an empty object. Throws RequestError.
std::optional<std::string> read_prediction(const RequestFields& fields);

/// Its tokens: the first ones, as many as an answer can have at most. longest_token_bytes: see prompt_tokens.h.
std::vector<int32_t> prediction_tokens(std::string_view text, size_t longest_token_bytes, int context_tokens,
                                       const Tokenizer& tokenizer);

}  // namespace hearth
