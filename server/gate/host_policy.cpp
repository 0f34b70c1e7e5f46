// See the header.
#include "server/gate/host_policy.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "server/http/connection/listen_socket.h"
#include "server/http/message/header_text.h"

namespace hearth {
namespace {

constexpr size_t kMostNameBytes = 253;  // limit of DNS names

/// Returns the name in lower case, without port, brackets and final dot: "Example.org.:8080" ->
/// "example.org", "[::1]:8080" -> "::1". Returns "" if the closing bracket is missing.
std::string host_name(std::string_view host) {
  if (host.starts_with('[')) {
    const size_t end = host.find(']');
    return end == std::string_view::npos ? "" : lowered(host.substr(1, end - 1));
  }
  // An IPv6 address without brackets has several colons. --host accepts such addresses.
  const size_t colon = host.find(':');
  if (colon != std::string_view::npos && host.find(':', colon + 1) == std::string_view::npos)
    host = host.substr(0, colon);
  if (host.ends_with('.')) host.remove_suffix(1);
  return lowered(host);
}

bool is_address(const std::string& name) {
  in6_addr address{};  // IPv4 or IPv6
  return ::inet_pton(AF_INET, name.c_str(), &address) == 1 ||
         ::inet_pton(AF_INET6, name.c_str(), &address) == 1;
}

bool is_loopback_address(const std::string& name) {
  in_addr v4{};
  if (::inet_pton(AF_INET, name.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6{};
  if (::inet_pton(AF_INET6, name.c_str(), &v6) != 1) return false;
  if (IN6_IS_ADDR_V4MAPPED(&v6)) return v6.s6_addr[12] == 127;
  return IN6_IS_ADDR_LOOPBACK(&v6);
}

/// Whether this is one of the names that nobody can register, so that no web page can have them.
bool is_name_of_this_machine(const std::string& name) {
  // Containers reach their host by these names. With some container runtimes, such connections arrive at the
  // loopback address.
  constexpr std::array<std::string_view, 2> kOfContainers = {"host.docker.internal",
                                                             "host.containers.internal"};
  return name == "localhost" || name.ends_with(".localhost") || is_loopback_address(name) ||
         std::ranges::find(kOfContainers, name) != kOfContainers.end();
}

bool is_plain(std::string_view name) {
  return std::ranges::all_of(name, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '.' || c == '-' || c == '_' || c == ':';
  });
}

}  // namespace

HostPolicy::HostPolicy(const std::string& bound, const std::vector<std::string>& allowed)
    : bound_(host_name(bound)),
      checks_(is_loopback(bound) || !allowed.empty()),
      takes_addresses_(!is_loopback(bound)) {
  for (const std::string& name : allowed) {
    if (name == "*") checks_ = false;
    allowed_.push_back(host_name(name));
  }
}

std::optional<ApiError> HostPolicy::refusal(const HttpRequest& request) const {
  const std::string_view host = request.header("Host");
  if (!checks_ || host.empty()) return std::nullopt;
  const std::string name = host_name(host);
  if (takes_addresses_ && is_address(name)) return std::nullopt;
  if (!name.empty() && (is_name_of_this_machine(name) || name == bound_ ||
                        std::ranges::find(allowed_, name) != allowed_.end()))
    return std::nullopt;
  const bool shown = !name.empty() && name.size() <= kMostNameBytes && is_plain(name);
  return ApiError{
      403,
      shown
          ? "this server does not answer to the host name " + name + "; --allowed-host " + name + " allows it"
          : "this server does not answer to the host name in the Host header; --allowed-host adds names",
      "", "host_not_allowed"};
}

}  // namespace hearth
