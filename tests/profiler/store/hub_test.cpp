// The hub's answers, valid and invalid ones.
#include "profiler/store/hub.h"

#include "tests/support/catch.h"

using namespace hearth;

namespace {

const std::string kHash(64, 'b');

std::string refusal(std::string_view json) {
  try {
    parse_repository(json, "hf:a/b");
  } catch (const PullError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("hub: URLs of a repository and of its files are built") {
  const HubReference plain{.owner = "a", .repository = "b", .revision = {}, .file = {}, .quant = {}};
  CHECK(repository_url("https://hub", plain) == "https://hub/api/models/a/b?blobs=true");
  HubReference revised = plain;
  revised.revision = "refs/pr/1";
  CHECK(repository_url("https://hub", revised) ==
        "https://hub/api/models/a/b/revision/refs%2Fpr%2F1?blobs=true");
  CHECK(file_url("https://hub", plain, "0123abc", "s/x y.gguf") ==
        "https://hub/a/b/resolve/0123abc/s/x%20y.gguf");
}

TEST_CASE("hub: a description gives files with sizes and checksums") {
  const HubRepository repository = parse_repository(
      R"({"sha": "0123456789abcdef0123456789abcdef01234567", "gguf": {"architecture": "llama", "total": 5},
          "siblings": [{"rfilename": "README.md", "size": 10},
                       {"rfilename": "x-Q4_0.gguf", "size": 1, "lfs": {"sha256": ")" +
          kHash + R"(", "size": 4000000000, "pointerSize": 130}}]})",
      "hf:a/b");
  CHECK(repository.commit == "0123456789abcdef0123456789abcdef01234567");
  CHECK(repository.architecture == "llama");
  REQUIRE(repository.files.size() == 2);
  CHECK(repository.files[0] == HubFile{"README.md", 10, ""});
  CHECK(repository.files[1] == HubFile{"x-Q4_0.gguf", 4'000'000'000, kHash});
}

TEST_CASE("hub: hostile descriptions give no file outside the store, and no false size") {
  const HubRepository repository = parse_repository(
      R"({"sha": "../../etc", "gguf": "no", "siblings": [
          {"rfilename": "../x.gguf"}, {"rfilename": "/etc/x.gguf"}, {"rfilename": "a/../x.gguf"}, {"rfilename": ".ssh/x.gguf"},
          {"rfilename": "a//x.gguf"}, {"rfilename": "a\u0000x.gguf"}, {"rfilename": "a\nx.gguf"}, {"rfilename": 7}, {}, 7, null,
          {"rfilename": "neg.gguf", "size": -5}, {"rfilename": "huge.gguf", "size": 1e300},
          {"rfilename": "big.gguf", "size": 18446744073709551615},
          {"rfilename": "hash.gguf", "size": 1, "lfs": {"sha256": "zz", "size": "x"}}]})",
      "hf:a/b");
  CHECK(repository.commit.empty());
  CHECK(repository.architecture.empty());
  REQUIRE(repository.files.size() == 4);
  for (const HubFile& file : repository.files) {
    CHECK(file.sha256.empty());
    CHECK(file.size <= 1);
  }
}

TEST_CASE("hub: a malformed description is refused in one sentence") {
  for (const std::string_view bad :
       {"", "<html>\n\x1b[31m</html>", "[]", "{}", R"({"siblings": 5})", "{\"siblings\": ["}) {
    INFO(bad);
    CHECK_THAT(refusal(bad),
               ContainsSubstring("hf:a/b: ") && ContainsSubstring("does not describe a repository"));
    CHECK(refusal(bad).find('\n') == std::string::npos);
    CHECK(refusal(bad).find('\x1b') == std::string::npos);
  }
}

TEST_CASE("hub: refusals say what to do") {
  CHECK_THAT(refusal_text("hf:a/b", 401, "", false), ContainsSubstring("--token-file"));
  CHECK_THAT(refusal_text("hf:a/b", 401, "", true), ContainsSubstring("refuses the token"));
  CHECK_THAT(refusal_text("hf:a/b", 403, "GatedRepo", true), ContainsSubstring("accept the terms"));
  CHECK_THAT(refusal_text("hf:a/b", 404, "RevisionNotFound", false), ContainsSubstring("revision"));
  CHECK_THAT(refusal_text("hf:a/b", 404, "", false), ContainsSubstring("check the name"));
  CHECK_THAT(refusal_text("hf:a/b", 418, "", false), ContainsSubstring("418"));
}

TEST_CASE("hub: an endpoint is an address without a query, and its final slash is removed") {
  CHECK(checked_endpoint("https://huggingface.co/") == "https://huggingface.co");
  CHECK(checked_endpoint("http://127.0.0.1:8000/hub//") == "http://127.0.0.1:8000/hub");
  for (const std::string_view bad : {"", "huggingface.co", "ftp://x", "https://", "https:///x", "https://x?y",
                                     "https://a@b", "https://a b"})
    CHECK_THROWS_AS(checked_endpoint(bad), ReferenceError);
}
