// The texts of a request as clients may give them: a string, token ids, or arrays of either.
//
// Completions and embeddings take them alike. HTTP thread; no state.
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

/// OpenAI's limit on an array of prompts. Here it bounds all sequences of a request, those of best_of included, because
/// each has a copy of its prompt.
inline constexpr size_t kMaxSequences = 2048;

/// Text, or token ids (at least one).
using Prompt = std::variant<std::string, std::vector<int32_t>>;

/// At least one prompt, at most kMaxSequences. Texts may be empty. param: the member that `value` was found in, for
/// errors. Throws RequestError.
std::vector<Prompt> read_prompts(const Json& value, std::string_view param, const RequestLimits& limits);

}  // namespace hearth
