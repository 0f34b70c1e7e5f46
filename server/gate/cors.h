// Decides which web pages may call the server. Pure; const and thread-safe.
//
// A script on a web page sends an Origin header. The browser lets the script read an answer only if the
// server allows it. But the browser sends many requests without asking the server first. Without API keys,
// any web page could therefore use the model through its visitor's browser, so requests from pages that are
// not allowed are refused.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/http/http_types.h"

namespace hearth {

class CorsPolicy {
 public:
  /// origins: the values of --cors-origin. Empty: allows pages served from this machine, and desktop programs
  /// on it. "*": allows all pages. "none": allows no page.
  explicit CorsPolicy(std::vector<std::string> origins) : origins_(std::move(origins)) {}

  /// Whether the origin is allowed. remote_address: the client's numeric address; by default, desktop
  /// programs are allowed only on this machine.
  bool allows(std::string_view origin, std::string_view remote_address) const;
  /// Whether the origin belongs to a web page (http, https, or the opaque "null"), not to an extension or
  /// desktop program.
  static bool is_web_page(std::string_view origin);
  /// Returns the answer to a CORS preflight request or to another OPTIONS request.
  HttpResponse preflight(const HttpRequest& request) const;
  /// Adds the headers with which an allowed page can read the answer. Credentials are never allowed, because
  /// keys are sent in a header.
  void allow(const HttpRequest& request, HttpHeaders& headers) const;

 private:
  std::vector<std::string> origins_;
};

}  // namespace hearth
