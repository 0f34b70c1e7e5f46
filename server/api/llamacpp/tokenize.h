// POST /tokenize, /detokenize and /apply-template: tokenization and templates without generation.
//
// llama.cpp and vLLM use the same paths for /tokenize and /detokenize, but with different members; the
// members of a request determine which form is meant. Called on HTTP threads.
#pragma once

#include <string_view>

#include "server/api/api_context.h"
#include "server/http/http_types.h"

namespace hearth {

/// llama.cpp's form: {"content", "add_special", "parse_special", "with_pieces"} -> {"tokens"}.
/// vLLM's form: {"prompt"} or {"messages", ...} -> {"count", "max_model_len", "tokens", "token_strs"}.
HttpResponse tokenize(const ApiContext& api, const HttpRequest& request, std::string_view path_model = {});
/// {"tokens"} -> {"content", "prompt"}. Both members contain the text: "content" is for llama.cpp's clients,
/// "prompt" for vLLM's.
HttpResponse detokenize(const ApiContext& api, const HttpRequest& request, std::string_view path_model = {});
/// Takes a /v1/chat/completions body and returns {"prompt"}: the text that the model would receive.
HttpResponse apply_template(const ApiContext& api, const HttpRequest& request,
                            std::string_view path_model = {});

}  // namespace hearth
