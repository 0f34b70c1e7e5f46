// GET /props, /slots and /tokenizer_info: facts that clients read before they use a server.
//
// The answers reveal nothing about other clients' requests except their number. Called on HTTP threads.
#pragma once

#include <string_view>

#include "server/api/api_context.h"
#include "server/http/http_types.h"

namespace hearth {

/// llama.cpp's /props: the context, slots, template, begin and end tokens, and default parameters.
HttpResponse props(const ApiContext& api, const HttpRequest& request, std::string_view argument = {});
/// llama.cpp's /slots. Slots are interchangeable: if n slots are in use, the first n are shown as busy. With
/// fail_on_no_slot=1 in the query, the status is 503 if no slot is free.
HttpResponse slots(const ApiContext& api, const HttpRequest& request, std::string_view argument = {});
/// vLLM's /tokenizer_info, for clients that render the chat template themselves and use this server to
/// tokenize.
HttpResponse tokenizer_info(const ApiContext& api, const HttpRequest& request,
                            std::string_view argument = {});

}  // namespace hearth
