// GET / and GET /page/*: the web page with which users chat with the model and watch its work.
//
// The page is one HTML document with its style and script. What only some answers need (KaTeX with its fonts,
// and highlight.js) are files below /page/. All of them are compiled into the program by
// server/page/page.cmake. They contain no user data and are served without an API key; if the API requires a
// key, the page asks the user for it. The Content-Security-Policy permits the document's own style and script
// by their hashes, and other styles, scripts, fonts and connections from this server only.
// Called on HTTP threads.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "server/http/http_types.h"

namespace hearth {

/// A file of the page.
struct PagePart {
  std::string_view path;  // below /page/; "" for the document
  std::string_view type;  // for the header Content-Type
  std::string_view bytes;
};

/// Returns all files of the page, the document first. They live as long as the program.
std::span<const PagePart> page_parts();

/// Returns the Content-Security-Policy for a document with one <style> and one <script type="module">.
std::string page_policy(std::string_view document);

/// Returns the document, or status 304 if the client already has it.
HttpResponse page(const HttpRequest& request);

/// Returns the file below /page/ that the request's path names, status 304 if the client already has it, or
/// status 404.
HttpResponse page_part(const HttpRequest& request);

}  // namespace hearth
