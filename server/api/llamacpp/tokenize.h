// POST /tokenize, /detokenize and /apply-template: tokenization and templates without generation.
//
// llama.cpp and vLLM use the same paths for the first two with different members; the request's members
// decide which form is meant. Called on HTTP threads.
#pragma once

#include <string_view>

#include "server/api/api_context.h"
#include "server/http/http_types.h"

namespace hearth {

/// llama.cpp's: {"content", "add_special", "parse_special", "with_pieces"} -> {"tokens"}.
/// vLLM's: {"prompt"} or {"messages", ...} -> {"count", "max_model_len", "tokens", "token_strs"}.
HttpResponse tokenize(const ApiContext& api, const HttpRequest& request, std::string_view path_model = {});
/// {"tokens"} -> {"content", "prompt"}, both with the text: "content" for llama.cpp's clients, "prompt" for
/// vLLM's.
HttpResponse detokenize(const ApiContext& api, const HttpRequest& request, std::string_view path_model = {});
/// A /v1/chat/completions body -> {"prompt"}: the text that the model would get.
HttpResponse apply_template(const ApiContext& api, const HttpRequest& request,
                            std::string_view path_model = {});

}  // namespace hearth
