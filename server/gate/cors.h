// Decides which web pages may call the server. Pure; const and thread-safe.
//
// A script on a page sends an Origin header. The browser lets the script read an answer only if the server
// agrees, but it sends many requests without asking the server first. Without API keys, the server therefore
// refuses requests from pages that are not allowed; otherwise any web page could use the model of its
// visitor.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/http/http_types.h"

namespace hearth {

class CorsPolicy {
 public:
  /// origins: the values of --cors-origin. An empty list allows pages served from this machine and desktop
  /// programs on it; "*" allows all pages; "none" allows no page.
  explicit CorsPolicy(std::vector<std::string> origins) : origins_(std::move(origins)) {}

  /// remote_address: the client's numeric address. By default, desktop programs are allowed only from this
  /// machine.
  bool allows(std::string_view origin, std::string_view remote_address) const;
  /// Whether the origin is a web page's (http, https, or the opaque "null"), not an extension's or desktop
  /// program's.
  static bool is_web_page(std::string_view origin);
  /// The answer to a CORS preflight, or to a plain OPTIONS.
  HttpResponse preflight(const HttpRequest& request) const;
  /// Adds the headers that let an allowed page read the answer. Never allows credentials, because keys are
  /// sent in a header.
  void allow(const HttpRequest& request, HttpHeaders& headers) const;

 private:
  std::vector<std::string> origins_;
};

}  // namespace hearth
