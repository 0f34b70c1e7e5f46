// Decodes base64, as tokenizer.json has bytes in it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hearth::convert {

/// Nullopt if `text` is no base64. Padding may be missing.
std::optional<std::string> decoded_base64(std::string_view text);

}  // namespace hearth::convert
