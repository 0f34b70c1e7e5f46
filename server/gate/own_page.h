// Whether a request comes from this server's own page (server/page/page.h). Pure; any thread.
#pragma once

#include <string_view>

namespace hearth {

/// Is the page of this Origin the one that was served under the same Host, over plain HTTP? Only if the host is an
/// address or a name without a dot: such names are no web site's. Of other names the two may agree and the page be a
/// stranger's all the same, whose name was made to lead here (DNS rebinding); --cors-origin allows those that are known.
bool is_own_page(std::string_view origin, std::string_view host);

}  // namespace hearth
