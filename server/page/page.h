// GET /: the page for chatting with the model and watching it work.
//
// One HTML document with its style and script, assembled by CMake (server/page/page.cmake) and compiled into
// the program. It holds no one's data, so it is served without a key, and asks for one when the API does. Its
// Content-Security-Policy names the hashes of its only style sheet and script, so that nothing else runs in
// it, and lets it connect only to this server. Called on HTTP threads.
#pragma once

#include <string>
#include <string_view>

#include "server/http/http_types.h"

namespace hearth {

/// The document's text.
std::string_view page_document();

/// The Content-Security-Policy of a document with one style sheet, in <style>, and one script, in <script
/// type="module">.
std::string page_policy(std::string_view document);

/// Returns the document, or 304 if the client already has it.
HttpResponse page(const HttpRequest& request);

}  // namespace hearth
