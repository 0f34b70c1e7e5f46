// Decides which host names in requests are accepted. Pure; const and thread-safe.
//
// A web page can make its own host name point to this machine's address (DNS rebinding). The browser then
// treats this server as part of the page's site, and the Origin header looks harmless. Only the Host header
// still contains the page's host name.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/http/http_types.h"
#include "server/json/api_error.h"

namespace hearth {

class HostPolicy {
 public:
  /// bound: the address of --host. allowed: the values of --allowed-host; "*" allows any name. A server that
  /// does not listen on loopback cannot know its names in the network, so it checks names only if `allowed`
  /// is not empty. It also accepts every IP address, because health probes use addresses. This is safe,
  /// because the origin of a foreign page cannot contain this server's address.
  HostPolicy(const std::string& bound, const std::vector<std::string>& allowed);

  /// Returns the 403 error unless the request's host name is a name of this machine (localhost and names
  /// below it, loopback addresses, names by which containers reach their host), the bound address, or an
  /// allowed name. Ignores ports and case. Accepts a request without a Host header, because it does not come
  /// from a browser.
  std::optional<ApiError> refusal(const HttpRequest& request) const;

 private:
  std::string bound_;
  std::vector<std::string> allowed_;
  bool checks_, takes_addresses_;
};

}  // namespace hearth
