// POST /tokenize, /detokenize and /apply-template: tokenization and chat templates without generation.
//
// llama.cpp and vLLM both have /tokenize and /detokenize, but with different members. The request's members
// determine which API is meant. Called on HTTP threads.
#pragma once

#include <string_view>

#include "server/api/api_context.h"
#include "server/http/http_types.h"

namespace hearth {

/// llama.cpp: {"content", "add_special", "parse_special", "with_pieces"} -> {"tokens"}.
/// vLLM: {"prompt"} or {"messages", ...} -> {"count", "max_model_len", "tokens", "token_strs"}.
HttpResponse tokenize(const ApiContext& api, const HttpRequest& request, std::string_view path_model = {});
/// {"tokens"} -> {"content", "prompt"}. Both members contain the text; llama.cpp's clients read "content",
/// and vLLM's clients read "prompt".
HttpResponse detokenize(const ApiContext& api, const HttpRequest& request, std::string_view path_model = {});
/// Returns {"prompt"}, the text that the model would receive for a /v1/chat/completions body.
HttpResponse apply_template(const ApiContext& api, const HttpRequest& request,
                            std::string_view path_model = {});

}  // namespace hearth
