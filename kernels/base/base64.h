// Base64 (RFC 4648, section 4). Pure; any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace hearth {

/// Encodes `bytes`, with padding.
std::string base64_of(std::span<const std::byte> bytes);

/// Returns nullopt if `text` is not base64. Padding may be missing.
std::optional<std::string> decoded_base64(std::string_view text);

}  // namespace hearth
