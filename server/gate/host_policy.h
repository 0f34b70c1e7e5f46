// Decides which host names requests may use for the server. Pure; const and thread-safe.
//
// A web page can point its own name at this machine's address (DNS rebinding). To the browser the server then
// belongs to that page's site, so no Origin header reveals it; only the Host header still has the page's
// name.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/http/http_types.h"
#include "server/json/api_error.h"

namespace hearth {

class HostPolicy {
 public:
  /// bound: the address that the server listens on, as given to --host. allowed: --allowed-host; "*" allows
  /// any name. A server that does not listen on loopback checks nothing unless `allowed` has names, because
  /// its network decides which names lead to it. With names, any IP address is still accepted: a page's
  /// origin cannot be an address that is not its server's, and probes ask by address.
  HostPolicy(const std::string& bound, const std::vector<std::string>& allowed);

  /// The 403 for a name that is neither this machine's (localhost and names below it, loopback addresses, the
  /// names by which containers reach their host), nor the bound address, nor an allowed name. Ignores ports
  /// and case. A request without a Host header does not come from a browser and is accepted.
  std::optional<ApiError> refusal(const HttpRequest& request) const;

 private:
  std::string bound_;
  std::vector<std::string> allowed_;
  bool checks_, takes_addresses_;
};

}  // namespace hearth
