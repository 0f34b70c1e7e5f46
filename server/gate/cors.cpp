// See the header.
#include "server/gate/cors.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "server/http/connection/listen_socket.h"

namespace hearth {
namespace {

bool is_local_page(std::string_view origin) {
  const size_t scheme = origin.find("://");
  if (!CorsPolicy::is_web_page(origin) || scheme == std::string_view::npos) return false;
  std::string_view host = origin.substr(scheme + 3);
  if (host.find_first_of("/@?#") != std::string_view::npos) return false;
  const size_t port = host.rfind(':');
  if (port != std::string_view::npos && host.find(']', port) == std::string_view::npos)
    host = host.substr(0, port);
  constexpr std::string_view kSuffix = ".localhost";  // this machine, by definition (RFC 6761)
  const bool under_localhost =
      host.size() > kSuffix.size() && host.substr(host.size() - kSuffix.size()) == kSuffix;
  return host == "localhost" || host == "127.0.0.1" || host == "[::1]" || under_localhost;
}

/// Whether the origin belongs to the web interface of a desktop program or editor: Electron (app://), Tauri,
/// VS Code's panels, or pages opened from the disk. No web site can have such an origin.
bool is_desktop_page(std::string_view origin) {
  constexpr std::array<std::string_view, 4> kSchemes = {"app://", "tauri://", "vscode-webview://", "file://"};
  return std::any_of(kSchemes.begin(), kSchemes.end(),
                     [origin](std::string_view scheme) { return origin.starts_with(scheme); });
}

/// Whether the text is a list of header names that can safely be sent back.
bool is_header_list(std::string_view text) {
  return text.size() <= 4096 && std::all_of(text.begin(), text.end(), [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == ',' ||
                  c == ' ';
         });
}

}  // namespace

bool CorsPolicy::is_web_page(std::string_view origin) {
  return origin.rfind("http://", 0) == 0 || origin.rfind("https://", 0) == 0 || origin == "null";
}

bool CorsPolicy::allows(std::string_view origin, std::string_view remote_address) const {
  if (origins_.empty()) {
    return is_local_page(origin) || (is_desktop_page(origin) && is_loopback(std::string(remote_address)));
  }
  return std::any_of(origins_.begin(), origins_.end(),
                     [origin](const std::string& allowed) { return allowed == "*" || allowed == origin; });
}

void CorsPolicy::allow(const HttpRequest& request, HttpHeaders& headers) const {
  const std::string_view origin = request.header("Origin");
  if (origin.empty()) return;
  headers.emplace_back("Vary", "Origin");
  if (!allows(origin, request.remote_address)) return;
  headers.emplace_back("Access-Control-Allow-Origin", std::string(origin));
  headers.emplace_back("Access-Control-Expose-Headers", "x-request-id, retry-after");
}

HttpResponse CorsPolicy::preflight(const HttpRequest& request) const {
  HttpResponse response;
  response.status = 204;
  response.headers.emplace_back("Allow", "GET, HEAD, POST, DELETE, OPTIONS");
  if (!allows(request.header("Origin"), request.remote_address)) return response;
  response.headers.emplace_back("Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS");
  // The requested headers are listed by name, because "*" does not include Authorization, and SDKs send many
  // x-stainless-* headers.
  const std::string_view wanted = request.header("Access-Control-Request-Headers");
  if (!wanted.empty() && is_header_list(wanted)) {
    response.headers.emplace_back("Access-Control-Allow-Headers", std::string(wanted));
  }
  if (request.header("Access-Control-Request-Private-Network") == "true") {
    response.headers.emplace_back("Access-Control-Allow-Private-Network", "true");
  }
  response.headers.emplace_back("Access-Control-Max-Age", "600");
  return response;
}

}  // namespace hearth
