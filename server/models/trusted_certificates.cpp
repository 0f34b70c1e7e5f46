// See the header.
#include "server/models/trusted_certificates.h"

#include <curl/curl.h>

#include <array>
#include <system_error>

namespace hearth {

std::string trusted_certificates(const Environment& environment, const std::filesystem::path& builtin,
                                 std::span<const std::filesystem::path> places) {
  for (const char* variable : {"SSL_CERT_FILE", "CURL_CA_BUNDLE"})
    if (std::string named = environment_value(environment, variable); !named.empty()) return named;
  std::error_code error;
  if (std::filesystem::exists(builtin, error)) return {};
  for (const std::filesystem::path& place : places)
    if (std::filesystem::exists(place, error)) return place.string();
  return {};
}

std::string trusted_certificates(const Environment& environment) {
  static const std::array<std::filesystem::path, 5> places = {
      "/etc/ssl/certs/ca-certificates.crt",                 // Debian, Ubuntu, Arch, Gentoo, NixOS
      "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  // Fedora, RHEL and its relatives
      "/etc/pki/tls/certs/ca-bundle.crt",                   // their older releases
      "/etc/ssl/ca-bundle.pem",                             // openSUSE
      "/etc/ssl/cert.pem"};                                 // Void, and others that follow OpenBSD
  const curl_version_info_data* library = curl_version_info(CURLVERSION_NOW);
  const char* builtin = library->age >= CURLVERSION_SEVENTH ? library->cainfo : nullptr;
  return trusted_certificates(environment, builtin != nullptr ? builtin : "", places);
}

}  // namespace hearth
