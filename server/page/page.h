// GET /: the web page with which users chat with the model and watch its work.
//
// The page is one HTML document with its style and script, assembled and compiled into the program by
// server/page/page.cmake. The document contains no user data and is served without an API key; if the API
// requires a key, the page asks the user for it. The Content-Security-Policy contains the hashes of the style
// sheet and the script, so that the browser runs nothing else, and permits connections only to this server.
// Called on HTTP threads.
#pragma once

#include <string>
#include <string_view>

#include "server/http/http_types.h"

namespace hearth {

/// Returns the text of the HTML document.
std::string_view page_document();

/// Returns the Content-Security-Policy for a document with one <style> and one <script type="module">.
std::string page_policy(std::string_view document);

/// Returns the document, or status 304 if the client already has it.
HttpResponse page(const HttpRequest& request);

}  // namespace hearth
