// SHA-256 (FIPS 180-4), by which a file tells which text it was made with.
//
// For naming texts, not for security: nothing secret goes through it. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

namespace hearth {

/// 64 hexadecimal digits, as sha256sum prints them.
std::string sha256_hex(std::string_view bytes);

}  // namespace hearth
