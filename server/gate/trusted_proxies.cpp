// See the header.
#include "server/gate/trusted_proxies.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "server/http/message/header_text.h"
#include "server/process/start_error.h"

namespace hearth {
namespace {

constexpr int kMostBits = 128;
constexpr int kBitsBeforeIpv4 = 96;  // the IPv6 network ::ffff:0:0/96 contains the IPv4 addresses
constexpr size_t kMostHops = 32;     // longer than any real chain of proxies; bounds the work for one header

/// Removes the port and the brackets that some proxies write: "10.0.0.1:80", "[::1]:80".
std::string_view without_port(std::string_view text) {
  if (text.starts_with('[')) return text.substr(1, std::min(text.find(']'), text.size()) - 1);
  const size_t colon = text.find(':');
  return colon != std::string_view::npos && text.find(':', colon + 1) == std::string_view::npos
             ? text.substr(0, colon)
             : text;
}

}  // namespace

bool TrustedProxies::read_address(std::string_view text, Address& address) {
  const std::string name(text);
  if (name.size() >= INET6_ADDRSTRLEN || name.find('\0') != std::string::npos) return false;
  in_addr v4{};
  if (::inet_pton(AF_INET, name.c_str(), &v4) == 1) {
    address = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    std::memcpy(address.data() + address.size() - sizeof v4, &v4, sizeof v4);
    return true;
  }
  return ::inet_pton(AF_INET6, name.c_str(), address.data()) == 1;
}

TrustedProxies::TrustedProxies(const std::vector<std::string>& networks) {
  for (const std::string& text : networks) {
    const size_t slash = text.find('/');
    Network network{.address = {}, .bits = kMostBits};
    bool good = read_address(text.substr(0, slash), network.address);
    if (good && slash != std::string::npos) {
      const bool is_v4 = text.find(':') == std::string::npos;
      const std::string bits = text.substr(slash + 1);
      int n = 0;
      const auto [end, error] = std::from_chars(bits.data(), bits.data() + bits.size(), n);
      good =
          error == std::errc() && end == bits.data() + bits.size() && n >= 0 && n <= (is_v4 ? 32 : kMostBits);
      network.bits = n + (is_v4 ? kBitsBeforeIpv4 : 0);
    }
    if (!good) {
      throw StartError(
          "--trusted-proxy is \"" + text +
          "\", which is neither an address nor a network; expected one such as 127.0.0.1 or 10.0.0.0/8.");
    }
    networks_.push_back(network);
  }
}

bool TrustedProxies::trusts(const Address& address) const {
  return std::ranges::any_of(networks_, [&](const Network& network) {
    const int whole = network.bits / 8;
    const int rest = network.bits % 8;
    if (!std::equal(address.begin(), address.begin() + whole, network.address.begin())) return false;
    return rest == 0 || (address[whole] ^ network.address[whole]) >> (8 - rest) == 0;
  });
}

std::string TrustedProxies::sender(const HttpRequest& request) const {
  std::string sender = request.remote_address;
  Address address{};
  if (networks_.empty() || !read_address(sender, address) || !trusts(address)) return sender;
  std::string chain;  // all X-Forwarded-For lines, joined to one list
  for (const auto& [name, value] : request.headers) {
    if (lowered(name) == "x-forwarded-for") chain += (chain.empty() ? "" : ",") + value;
  }
  std::string_view left = chain;
  for (size_t hop = 0; hop < kMostHops && !left.empty(); ++hop) {
    const size_t comma = left.rfind(',');
    const std::string_view last =
        without_port(trimmed(comma == std::string_view::npos ? left : left.substr(comma + 1)));
    if (!read_address(last, address)) break;
    sender = last;
    if (comma == std::string_view::npos || !trusts(address)) break;
    left = left.substr(0, comma);
  }
  return sender;
}

}  // namespace hearth
