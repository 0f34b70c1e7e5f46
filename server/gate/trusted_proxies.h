// Which client a proxy asks for. Pure; const and thread-safe.
//
// Behind a proxy all requests come from its address, so that without keys everybody would be one client when slots are shared
// out. A proxy that the operator trusts is believed what it says in X-Forwarded-For. Nothing else follows from that header: who
// may use the server is decided by the address that the connection comes from.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/http_types.h"

namespace hearth {

class TrustedProxies {
 public:
  /// networks: addresses, or networks such as 10.0.0.0/8, of IPv4 and IPv6. Throws StartError with the one that is neither.
  explicit TrustedProxies(const std::vector<std::string>& networks);

  /// The address of the client: the connection's, unless that is a trusted proxy's; then the last of X-Forwarded-For that is not
  /// one too. Each proxy adds the address that it was asked from at the end, and what stands before that is anybody's word.
  /// A text that is no address ends the search. Numeric.
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
