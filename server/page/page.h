// GET /: the page by which people talk to the model and watch it work.
//
// One HTML document with its style and script in it, put together by CMake (server/page/page.cmake) and part of the
// program. It holds no data of anyone, so it is served without a key, and asks for one when the API does. Its
// Content-Security-Policy names the hashes of the one style sheet and the one script, so that nothing else runs in it,
// and lets it connect to this server only. Called on HTTP threads.
#pragma once

#include <string>
#include <string_view>

#include "server/http/http_types.h"

namespace hearth {

/// The document's text.
std::string_view page_document();

/// The Content-Security-Policy of a document whose one style sheet is in <style> and whose one script in <script type="module">.
std::string page_policy(std::string_view document);

/// The document; 304 if the client has it already.
HttpResponse page(const HttpRequest& request);

}  // namespace hearth
