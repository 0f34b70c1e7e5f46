// See the header.
#include "server/gate/own_page.h"

#include <algorithm>
#include <cctype>

namespace hearth {
namespace {

bool is_digits_and_dots(std::string_view name) {
  return std::ranges::all_of(name, [](unsigned char c) { return std::isdigit(c) != 0 || c == '.'; });
}

}  // namespace

bool is_own_page(std::string_view origin, std::string_view host, bool has_tls) {
  const std::string_view scheme = has_tls ? "https://" : "http://";
  if (host.empty() || !origin.starts_with(scheme) || origin.substr(scheme.size()) != host) return false;
  if (has_tls) return true;
  if (host.front() == '[') return true;  // an IPv6 address
  const std::string_view name = host.substr(0, host.find(':'));
  return name.find('.') == std::string_view::npos || is_digits_and_dots(name);
}

}  // namespace hearth
