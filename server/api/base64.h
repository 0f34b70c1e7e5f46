// Base64 (RFC 4648, 4), with padding. Pure; any thread.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace hearth {

std::string base64_of(std::span<const std::byte> bytes);

}  // namespace hearth
