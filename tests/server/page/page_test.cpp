// The page as a document: its policy lists what it contains, and it refers to nothing outside.
#include "server/page/page.h"

#include <string>

#include "tests/server/api/api_bench.h"
#include "tests/support/catch.h"

namespace hearth {
namespace {

TEST_CASE("the page's policy names the hashes of its style and its script, as browsers compute them") {
  // printf 'a' | openssl dgst -sha256 -binary | base64
  const std::string policy = page_policy("<style>a</style><script type=\"module\">b</script>");
  CHECK_THAT(policy, ContainsSubstring("style-src 'sha256-ypeBEsobvcr6wjGzmiPcTaeG7/gUfE5yuYB3ha/uSLs='"));
  CHECK_THAT(policy, ContainsSubstring("script-src 'sha256-PiPoFgA5WUoziU9lZOGxNIu9egCI1CxKy3PurtWcAJ0='"));
  CHECK(policy.find("unsafe") == std::string::npos);
}

TEST_CASE("the page is one document with its modules joined") {
  const std::string_view document = page_document();
  CHECK(document.starts_with("<!doctype html>"));
  for (const std::string_view left :
       {"@page_", "\nimport ", "\nexport ", "innerHTML", "<script src", "stylesheet"}) {
    INFO(left);
    CHECK(document.find(left) == std::string_view::npos);
  }
}

TEST_CASE("a client that has the page does not get it again") {
  const HttpResponse first = page({});
  CHECK(first.status == 200);
  CHECK(first.body == page_document());
  HttpRequest request;
  request.headers = {{"If-None-Match", "W/\"other\", " + header_of(first, "ETag")}};
  const HttpResponse again = page(request);
  CHECK(again.status == 304);
  CHECK(again.body.empty());
  CHECK(header_of(again, "Content-Security-Policy") == header_of(first, "Content-Security-Policy"));
}

}  // namespace
}  // namespace hearth
