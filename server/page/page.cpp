// See the header.
#include "server/page/page.h"

#include <algorithm>
#include <cassert>
#include <vector>

#include "kernels/base/base64.h"
#include "kernels/base/sha256.h"
#include "server/http/error_response.h"

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

/// Returns the part, or status 304 if the client already has it.
HttpResponse response_of(const HttpRequest& request, const PagePart& part) {
  static const std::vector<std::string> tags = [] {
    std::vector<std::string> all;
    for (const PagePart& one : page_parts()) all.push_back('"' + sha256_hex(one.bytes).substr(0, 32) + '"');
    return all;
  }();
  const std::string& tag = tags[static_cast<size_t>(&part - page_parts().data())];
  HttpResponse response;
  response.content_type = part.type;
  response.headers = {{"X-Content-Type-Options", "nosniff"},
                      {"Referrer-Policy", "no-referrer"},
                      {"Cross-Origin-Resource-Policy", "same-origin"},
                      {"Cache-Control", "no-cache"},
                      {"ETag", tag}};
  if (request.header("If-None-Match").find(tag) != std::string_view::npos) {
    response.status = 304;
  } else {
    response.body = part.bytes;
  }
  return response;
}

}  // namespace

std::string page_policy(std::string_view document) {
  return "default-src 'none'; script-src " + hash_source(document, "<script type=\"module\">", "</script>") +
         " 'self'; style-src " + hash_source(document, "<style>", "</style>") +
         " 'self'; font-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
         "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types dompurify";
}

HttpResponse page(const HttpRequest& request) {
  const PagePart& document = page_parts().front();
  static const std::string policy = page_policy(document.bytes);
  HttpResponse response = response_of(request, document);
  response.headers.emplace_back("Content-Security-Policy", policy);
  response.headers.emplace_back("Cross-Origin-Opener-Policy", "same-origin");
  return response;
}

HttpResponse page_part(const HttpRequest& request) {
  constexpr std::string_view kFolder = "/page/";
  const std::string_view path =
      std::string_view(request.path).substr(request.path.find(kFolder) + kFolder.size());
  const std::span<const PagePart> parts = page_parts().subspan(1);
  const auto found = std::ranges::find(parts, path, &PagePart::path);
  if (found == parts.end()) {
    return error_response({404, "the page has no file '" + std::string(path) + "'", "", "unknown_url"},
                          ErrorStyle::kOpenAi);
  }
  return response_of(request, *found);
}

}  // namespace hearth
