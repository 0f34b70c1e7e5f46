// POST /completion and POST /infill, for llama.cpp's own clients and editors.
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
/// Fills the gap between two texts.
void infill(const ApiContext& api, const HttpRequest& request, std::string_view path_model,
            ResponseWriter& writer);

}  // namespace hearth
