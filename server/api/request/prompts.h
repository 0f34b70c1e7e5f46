// Reads the texts of a request: a string, token ids, or arrays of either.
//
// Shared by completions and embeddings. HTTP thread; no state.
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

/// OpenAI's limit on the number of prompts in a request. Here it limits all sequences of a request, including
/// those of best_of, because each has a copy of its prompt.
inline constexpr size_t kMaxSequences = 2048;

/// Text, or token ids (at least one).
using Prompt = std::variant<std::string, std::vector<int32_t>>;

/// Reads 1 to kMaxSequences prompts. Texts may be empty. param: name of the member `value`, for errors.
/// Throws RequestError.
std::vector<Prompt> read_prompts(const Json& value, std::string_view param, const RequestLimits& limits);

}  // namespace hearth
