// POST /tokenize, /detokenize and /apply-template: what the model makes of texts, without generating.
//
// llama.cpp and vLLM gave the first two the same paths and different members; the request's members say which of the two is
// meant. Called on HTTP threads.
#pragma once

#include <string_view>

#include "server/api/api_context.h"
#include "server/http/http_types.h"

namespace hearth {

/// llama.cpp's: {"content", "add_special", "parse_special", "with_pieces"} -> {"tokens"}.
/// vLLM's: {"prompt"} or {"messages", ...} -> {"count", "max_model_len", "tokens", "token_strs"}.
HttpResponse tokenize(const ApiContext& api, const HttpRequest& request, std::string_view path_model = {});
/// {"tokens"} -> {"content", "prompt"}, both the text: the one is llama.cpp's member, the other vLLM's.
HttpResponse detokenize(const ApiContext& api, const HttpRequest& request, std::string_view path_model = {});
/// A body as for /v1/chat/completions -> {"prompt"}: the text that the model would be given.
HttpResponse apply_template(const ApiContext& api, const HttpRequest& request,
                            std::string_view path_model = {});

}  // namespace hearth
