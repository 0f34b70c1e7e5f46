// See the header.
#include "server/page/page.h"

#include <cassert>
#include <span>

#include "kernels/base/base64.h"
#include "kernels/base/sha256.h"

namespace hearth {
namespace {

/// Returns the policy source 'sha256-...' for the part of the document between `open` and `close`.
std::string hash_source(std::string_view document, std::string_view open, std::string_view close) {
  const size_t begin = document.find(open) + open.size();
  const size_t end = document.find(close, begin);
  assert(begin >= open.size() && end != std::string_view::npos);
  const Sha256 hash = sha256(document.substr(begin, end - begin));
  return "'sha256-" + base64_of(std::as_bytes(std::span(hash))) + "'";
}

}  // namespace

std::string page_policy(std::string_view document) {
  return "default-src 'none'; script-src " + hash_source(document, "<script type=\"module\">", "</script>") +
         "; style-src " + hash_source(document, "<style>", "</style>") +
         "; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
         "require-trusted-types-for 'script'; trusted-types 'none'";
}

HttpResponse page(const HttpRequest& request) {
  static const std::string policy = page_policy(page_document());
  static const std::string tag = '"' + sha256_hex(page_document()).substr(0, 32) + '"';
  HttpResponse response;
  response.content_type = "text/html; charset=utf-8";
  response.headers = {{"Content-Security-Policy", policy},
                      {"X-Content-Type-Options", "nosniff"},
                      {"Referrer-Policy", "no-referrer"},
                      {"Cross-Origin-Opener-Policy", "same-origin"},
                      {"Cross-Origin-Resource-Policy", "same-origin"},
                      {"Cache-Control", "no-cache"},
                      {"ETag", tag}};
  if (request.header("If-None-Match").find(tag) != std::string_view::npos) {
    response.status = 304;
  } else {
    response.body = page_document();
  }
  return response;
}

}  // namespace hearth
