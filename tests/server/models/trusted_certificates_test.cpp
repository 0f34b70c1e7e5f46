// Tests where downloads look for the certificate authorities that they trust.
#include "server/models/trusted_certificates.h"

#include <array>
#include <fstream>

#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

using namespace hearth;
using hearth::test::TempFolder;

TEST_CASE("trusted certificates: the first file that exists, unless the environment names one") {
  const TempFolder folder;
  const std::array<std::filesystem::path, 3> places = {folder / "debian", folder / "fedora", folder / "suse"};
  CHECK(trusted_certificates({}, folder / "builtin", places).empty());
  std::ofstream(places[2]) << "x";
  CHECK(trusted_certificates({}, folder / "builtin", places) == places[2].string());
  CHECK(trusted_certificates({}, "", places) == places[2].string());
  std::ofstream(places[1]) << "x";
  CHECK(trusted_certificates({}, folder / "builtin", places) == places[1].string());
  std::ofstream(folder / "builtin") << "x";
  CHECK(trusted_certificates({}, folder / "builtin", places).empty());
  CHECK(trusted_certificates({{"CURL_CA_BUNDLE", "/a"}}, folder / "builtin", places) == "/a");
  CHECK(trusted_certificates({{"CURL_CA_BUNDLE", "/a"}, {"SSL_CERT_FILE", "/b"}}, "", places) == "/b");
  CHECK(trusted_certificates({{"SSL_CERT_FILE", ""}}, "", places) == places[1].string());
}
