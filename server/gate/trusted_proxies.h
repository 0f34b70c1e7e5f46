// Finds the client behind a proxy. Pure; const and thread-safe.
//
// Behind a proxy all requests come from its address, so without keys all clients would count as one when
// slots are shared. X-Forwarded-For is believed if a trusted proxy sends it. It has no other effect: access
// is decided by the connection's address.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/http_types.h"

namespace hearth {

class TrustedProxies {
 public:
  /// networks: addresses or networks such as 10.0.0.0/8, IPv4 and IPv6. Throws StartError that names a
  /// malformed one.
  explicit TrustedProxies(const std::vector<std::string>& networks);

  /// The client's numeric address: the connection's, unless that is a trusted proxy's. Then it is the last
  /// address of X-Forwarded-For that is not a trusted proxy: each proxy appends the address it was asked
  /// from, and anyone can write what precedes. The search ends at a text that is not an address.
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
