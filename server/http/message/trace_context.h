// The traceparent header, which names the trace that a request belongs to (W3C Trace Context, level 1).
//
// Pure functions; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hearth {

/// The trace id of "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01": 32 hexadecimal digits, not all
/// zero. nullopt if the text is malformed. Fields that later versions append are ignored.
std::optional<std::string> trace_id_of(std::string_view traceparent);

}  // namespace hearth
