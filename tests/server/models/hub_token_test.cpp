// Tests the sources of the hub's token, and that it is never shown.
#include "server/models/hub_token.h"

#include <fstream>

#include "profiler/store/hub.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

using namespace hearth;
using hearth::test::TempFolder;
namespace fs = std::filesystem;

namespace {

std::string file(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
  return path.string();
}

}  // namespace

TEST_CASE("hub token: the first source that has one wins") {
  const TempFolder folder;
  Environment environment = {{"HOME", folder.path().string()}};
  CHECK(hub_token("", environment).empty());
  file(folder / ".cache/huggingface/token", "hf_home\n");
  CHECK(hub_token("", environment) == "hf_home");
  environment["HF_TOKEN_PATH"] = file(folder / "path", "hf_path\r\n");
  CHECK(hub_token("", environment) == "hf_path");
  environment["HF_TOKEN"] = "hf_variable";
  CHECK(hub_token("", environment) == "hf_variable");
  CHECK(hub_token(file(folder / "named", " hf_named \n"), environment) == "hf_named");
}

TEST_CASE("hub token: an invalid token is refused without being quoted") {
  const TempFolder folder;
  CHECK_THROWS_AS(hub_token((folder / "missing").string(), {}), PullError);
  CHECK_THROWS_AS(hub_token(file(folder / "empty", "\n"), {}), PullError);
  try {
    hub_token(file(folder / "two", "secret\nX-Evil: 1\n"), {});
    FAIL("two lines were taken");
  } catch (const PullError& error) {
    CHECK_THAT(error.what(), ContainsSubstring("not hold an access token") && !ContainsSubstring("secret"));
  }
  CHECK_THROWS_AS(hub_token("", {{"HF_TOKEN", "a b"}}), PullError);
}
