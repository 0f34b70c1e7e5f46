// GET /props, /slots and /tokenizer_info: what programs ask of a server before they use it.
//
// Only facts that hold are told; nothing of other clients' requests but how many there are. Called on HTTP threads.
#pragma once

#include <string_view>

#include "server/api/api_context.h"
#include "server/http/http_types.h"

namespace hearth {

/// llama.cpp's: context, slots, template, begin and end token, and the values of parameters that requests leave out.
HttpResponse props(const ApiContext& api, const HttpRequest& request, std::string_view argument = {});
/// llama.cpp's: the slots. They are alike, so the first ones are shown as those that run. With fail_on_no_slot=1 in the query
/// it is 503 if none is free.
HttpResponse slots(const ApiContext& api, const HttpRequest& request, std::string_view argument = {});
/// vLLM's: what programs need that tokenise with this server and render its template themselves.
HttpResponse tokenizer_info(const ApiContext& api, const HttpRequest& request,
                            std::string_view argument = {});

}  // namespace hearth
