// Texts of llama.cpp's API, which may contain token ids: "text", or ["text", 12, 7, "more text"].
//
// Called by handlers on the HTTP thread.
#pragma once

#include <cstdint>
#include <vector>

#include "server/api/api_context.h"
#include "server/json/json.h"

namespace hearth {

struct MixedTextOptions {
  bool add_special = false;   // whether a value that begins with text gets the model's begin token
  bool parse_special = true;  // whether names of special tokens become these tokens
  // Whether a text that cannot fit into the context is refused before it is tokenized.
  bool within_context = true;
};

/// Returns the tokens of the member `name`, or no tokens if the member is absent. Throws RequestError.
std::vector<int32_t> read_mixed_text(const RequestFields& fields, std::string_view name,
                                     const MixedTextOptions& options, const ApiContext& api);

}  // namespace hearth
