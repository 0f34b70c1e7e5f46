// Which web pages may call the server. Pure; const and thread-safe.
//
// A page's script carries an Origin header. Browsers let it read answers only if the server agrees, but they
// send many requests before asking; so without API keys a request from a page that is not allowed is refused
// outright, or any web page could use the model of whoever looks at it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/http/http_types.h"

namespace hearth {

class CorsPolicy {
 public:
  /// origins as --cors-origin takes them: empty: pages served from this machine, and desktop programs on it;
  /// "*": all; "none": no page.
  explicit CorsPolicy(std::vector<std::string> origins) : origins_(std::move(origins)) {}

  /// remote_address: the client's, numeric. Desktop programs are allowed by default from this machine only.
  bool allows(std::string_view origin, std::string_view remote_address) const;
  /// Is the origin a web page's (http, https, or the opaque "null")? Extensions and desktop programs have
  /// others.
  static bool is_web_page(std::string_view origin);
  /// The answer to a preflight, or to a plain OPTIONS.
  HttpResponse preflight(const HttpRequest& request) const;
  /// Adds what lets an allowed page read the response. Never credentials: keys travel in a header.
  void allow(const HttpRequest& request, HttpResponse& response) const;

 private:
  std::vector<std::string> origins_;
};

}  // namespace hearth
