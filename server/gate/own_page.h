// Whether a request comes from this server's own page (server/page/page.h). Pure; any thread.
#pragma once

#include <string_view>

namespace hearth {

/// Whether the page of this Origin was served under the same Host over plain HTTP. True only if the host is
/// an address or a name without a dot, because no web site has such a name. For other names, Origin and Host
/// may agree although a stranger's page pointed its own name here (DNS rebinding); --cors-origin allows the
/// known ones.
bool is_own_page(std::string_view origin, std::string_view host);

}  // namespace hearth
