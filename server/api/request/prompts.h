// Reads the prompts of a request: a string, an array of token ids, or an array of strings and such arrays.
//
// Used by completions and embeddings on HTTP threads; stateless.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "server/api/request/generation_fields.h"
#include "server/json/json.h"

namespace hearth {

/// OpenAI's limit on the number of prompts in a request. This server limits the number of sequences, which is
/// the number of prompts times best_of, because each sequence has a copy of its prompt.
inline constexpr size_t kMaxSequences = 2048;

/// A text, or at least one token id.
using Prompt = std::variant<std::string, std::vector<int32_t>>;

/// Reads 1 to kMaxSequences prompts. A text may be empty. param: the name of `value` in errors. Throws
/// RequestError.
std::vector<Prompt> read_prompts(const Json& value, std::string_view param, const RequestLimits& limits);

}  // namespace hearth
