// POST /completion and POST /infill of llama.cpp's API, for llama.cpp's clients and for editors.
//
// Called on HTTP threads.
#pragma once

#include <string_view>

#include "server/api/api_context.h"
#include "server/http/http_types.h"
#include "server/http/response_writer.h"

namespace hearth {

void native_completion(const ApiContext& api, const HttpRequest& request, std::string_view path_model,
                       ResponseWriter& writer);
/// Generates the text between a prefix and a suffix.
void infill(const ApiContext& api, const HttpRequest& request, std::string_view path_model,
            ResponseWriter& writer);

}  // namespace hearth
