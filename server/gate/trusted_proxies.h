// Finds the client behind a proxy. Pure; const and thread-safe.
//
// All requests that pass through a proxy come from the proxy's address. Without keys, all clients of a proxy
// would therefore count as one client when slots are shared. The header X-Forwarded-For tells the clients
// apart and is believed if a trusted proxy sends it. The header has no other effect: access is decided by the
// connection's address.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/http_types.h"

namespace hearth {

class TrustedProxies {
 public:
  /// networks: addresses or networks such as 10.0.0.0/8, IPv4 and IPv6. Throws StartError, which names the
  /// malformed entry.
  explicit TrustedProxies(const std::vector<std::string>& networks);

  /// Returns the client's numeric address: the connection's address, unless that is a trusted proxy. For a
  /// trusted proxy, returns the last address in X-Forwarded-For that is not a trusted proxy. Each proxy
  /// appends the address from which it received the request, and anyone can forge the part before that. The
  /// search stops at a text that is not an address.
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
