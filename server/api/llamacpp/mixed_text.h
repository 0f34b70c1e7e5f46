// llama.cpp's texts, which may contain token ids: "text", or ["text", 12, 7, "more text"].
//
// Called by handlers on the HTTP thread.
#pragma once

#include <cstdint>
#include <vector>

#include "server/api/api_context.h"
#include "server/json/json.h"

namespace hearth {

struct MixedTextOptions {
  bool add_special = false;   // if the value begins with a text: adds the begin token that the model requires
  bool parse_special = true;  // names of special tokens become those tokens
  bool within_context = true;  // refuses texts that cannot fit into the context, before tokenizing
};

/// Returns the member's tokens, or none if the member is absent. Throws RequestError.
std::vector<int32_t> read_mixed_text(const RequestFields& fields, std::string_view name,
                                     const MixedTextOptions& options, const ApiContext& api);

}  // namespace hearth
