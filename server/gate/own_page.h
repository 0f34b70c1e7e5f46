// Detects requests from this server's own page (server/page/page.h). Pure; any thread may call it.
#pragma once

#include <string_view>

namespace hearth {

/// Returns true if `origin` is "http://" followed by `host`, and `host` is an IP address or a name without a
/// dot, which no web site can have. Returns false for other names, because a foreign page may have made its
/// own name point to this server (DNS rebinding). --cors-origin allows trusted names.
///
/// has_tls: whether this server speaks HTTPS. `origin` must then be "https://" followed by `host`, with any
/// name: the browser has checked that the server has a certificate for it.
bool is_own_page(std::string_view origin, std::string_view host, bool has_tls = false);

}  // namespace hearth
