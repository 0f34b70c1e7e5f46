// Whether a request comes from this server's own page (server/page/page.h). Pure; any thread.
#pragma once

#include <string_view>

namespace hearth {

/// Returns true if the page with this Origin was served over plain HTTP under this Host, and this host is an
/// address or a name without a dot. No web site has such a name. For other names the result is false even if
/// Origin and Host agree, because a foreign page may have pointed its own name at this server (DNS
/// rebinding); --cors-origin allows trusted names.
bool is_own_page(std::string_view origin, std::string_view host);

}  // namespace hearth
