// GET /: the page on which users chat with the model and watch it work.
//
// The page is one HTML document with its style and script. CMake assembles it (server/page/page.cmake) and
// compiles it into the program. It contains no user data, so it is served without an API key; the page asks
// the user for a key if the API requires one. Its Content-Security-Policy lists the hashes of its only style
// sheet and its only script, so that nothing else can run in it, and permits connections only to this server.
// Called on HTTP threads.
#pragma once

#include <string>
#include <string_view>

#include "server/http/http_types.h"

namespace hearth {

/// Returns the document's text.
std::string_view page_document();

/// Returns the Content-Security-Policy for a document with one style sheet, in <style>, and one script, in
/// <script type="module">.
std::string page_policy(std::string_view document);

/// Returns the document, or status 304 if the client already has it.
HttpResponse page(const HttpRequest& request);

}  // namespace hearth
