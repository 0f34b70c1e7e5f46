// GET /props, /slots and /tokenizer_info: what clients ask about a server before they use it.
//
// The answers contain only true facts. Of other clients' requests, they reveal only the number. Called on
// HTTP threads.
#pragma once

#include <string_view>

#include "server/api/api_context.h"
#include "server/http/http_types.h"

namespace hearth {

/// llama.cpp's /props: context, slots, template, begin and end tokens, and default parameter values.
HttpResponse props(const ApiContext& api, const HttpRequest& request, std::string_view argument = {});
/// llama.cpp's /slots. All slots are alike: as many slots as are in use are shown as busy, beginning with the
/// first. With fail_on_no_slot=1 in the query, the status is 503 if no slot is free.
HttpResponse slots(const ApiContext& api, const HttpRequest& request, std::string_view argument = {});
/// vLLM's /tokenizer_info, for clients that tokenize with this server and render its template themselves.
HttpResponse tokenizer_info(const ApiContext& api, const HttpRequest& request,
                            std::string_view argument = {});

}  // namespace hearth
