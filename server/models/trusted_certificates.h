// Finds the file of certificate authorities that downloads trust. A program that runs on many distributions
// cannot rely on the path that libcurl was built with.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "config/environment.h"

namespace hearth {

/// Returns the path of the trusted certificates, or an empty text if libcurl's built-in settings are right.
/// SSL_CERT_FILE and then CURL_CA_BUNDLE name another file. Without them, libcurl's own file is used if it
/// exists, otherwise the first file that exists of the places where distributions store theirs.
std::string trusted_certificates(const Environment& environment);

/// Like above, without libcurl: `builtin` is the file that libcurl was built with, or an empty path.
std::string trusted_certificates(const Environment& environment, const std::filesystem::path& builtin,
                                 std::span<const std::filesystem::path> places);

}  // namespace hearth
