// The traceparent header, which contains the id of the trace to which a request belongs (W3C Trace Context,
// level 1).
//
// Pure functions; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hearth {

/// Returns the trace id, 32 hexadecimal digits that are not all zero:
/// "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" -> "0af7651916cd43dd8448eb211c80319c". Returns
/// nullopt if the text is malformed. Ignores fields that later versions append.
std::optional<std::string> trace_id_of(std::string_view traceparent);

}  // namespace hearth
