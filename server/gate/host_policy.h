// Decides which host names requests may use for the server. Pure; const and thread-safe.
//
// A web page can point its own name at this machine's address (DNS rebinding). The browser then takes the
// server for a part of the page's site, so the Origin header does not reveal the page. Only the Host header
// still contains the page's name.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/http/http_types.h"
#include "server/json/api_error.h"

namespace hearth {

class HostPolicy {
 public:
  /// bound: the address that the server listens on, as given to --host. allowed: the values of
  /// --allowed-host; "*" allows any name. If the server does not listen on loopback, the network around it
  /// decides which names lead to it. Such a server checks names only if `allowed` is not empty, and even then
  /// accepts any IP address: the origin of a foreign page cannot contain this server's address, and health
  /// probes use addresses.
  HostPolicy(const std::string& bound, const std::vector<std::string>& allowed);

  /// Returns the 403 error unless the host name is one of these: a name of this machine (localhost and names
  /// below it, loopback addresses, the names by which containers reach their host), the bound address, or an
  /// allowed name. Ignores ports and case. A request without a Host header does not come from a browser and
  /// is accepted.
  std::optional<ApiError> refusal(const HttpRequest& request) const;

 private:
  std::string bound_;
  std::vector<std::string> allowed_;
  bool checks_, takes_addresses_;
};

}  // namespace hearth
