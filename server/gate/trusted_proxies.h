// Determines the client's address if requests pass through a proxy. Pure; const and thread-safe.
//
// All requests through a proxy come from the proxy's address. Without API keys, all clients of the proxy
// would therefore share slots as if they were one client. If a trusted proxy sends the header
// X-Forwarded-For, the clients are distinguished by it. The header does not affect access, which depends on
// the connection's address.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/http_types.h"

namespace hearth {

class TrustedProxies {
 public:
  /// networks: IPv4 and IPv6 addresses, or networks such as 10.0.0.0/8. Throws StartError, which names the
  /// malformed entry.
  explicit TrustedProxies(const std::vector<std::string>& networks);

  /// Returns the client's numeric address. This is the connection's address, unless that belongs to a trusted
  /// proxy. In this case, reads X-Forwarded-For from its end, because each proxy appends the address of its
  /// client, and anyone can forge the entries before those of trusted proxies. Returns the first address that
  /// does not belong to a trusted proxy. If the entries end, or one is not an address, returns the address
  /// read last.
  std::string sender(const HttpRequest& request) const;

 private:
  using Address = std::array<unsigned char, 16>;  // IPv4 as ::ffff:a.b.c.d
  struct Network {
    Address address;
    int bits;
  };

  static bool read_address(std::string_view text, Address& address);
  bool trusts(const Address& address) const;

  std::vector<Network> networks_;
};

}  // namespace hearth
