// Under which host names the server may be asked. Pure; const and thread-safe.
//
// A web page can give its own name this machine's address (DNS rebinding). To the browser the server is then part of that
// page's site, so no Origin gives it away; only the Host header still has the page's name.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/http/http_types.h"
#include "server/json/api_error.h"

namespace hearth {

class HostPolicy {
 public:
  /// bound: the address that the server listens on, as --host has it. allowed: --allowed-host; "*": any name.
  /// A server that listens on other addresses than loopback checks nothing unless `allowed` has names: which names lead to
  /// it is for its network to know. Then any address is let in too, for a page cannot have one that is not its server's;
  /// probes ask by address.
  HostPolicy(const std::string& bound, const std::vector<std::string>& allowed);

  /// The 403 for a name that is neither of this machine (localhost and names below it, loopback addresses, the name by which
  /// containers reach their host), nor the bound address, nor an allowed one. Ports and case do not matter. A request
  /// without a Host header is no browser's, and is let through.
  std::optional<ApiError> refusal(const HttpRequest& request) const;

 private:
  std::string bound_;
  std::vector<std::string> allowed_;
  bool checks_, takes_addresses_;
};

}  // namespace hearth
