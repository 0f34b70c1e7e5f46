// Decides which Content-Types are accepted for JSON bodies. Pure; called by Routes on HTTP worker threads.
//
// Many clients label JSON with a wrong type: curl -d sends application/x-www-form-urlencoded, and fetch()
// sends text/plain. These types are accepted, and the body decides. Types of bodies that are never JSON (a
// form with files, XML, an image) are refused. The refusal shows that the client uses a wrong endpoint or
// library, which the error "not JSON at byte 1" would not show.
#pragma once

#include <optional>
#include <string_view>

#include "server/json/api_error.h"

namespace hearth {

/// Returns the 415 error for a type whose body is never JSON, otherwise nullopt. content_type: the value of
/// the header; empty if absent.
std::optional<ApiError> content_type_refusal(std::string_view content_type);

}  // namespace hearth
