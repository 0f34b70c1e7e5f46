// The page as a document: its policy lists what it contains, and it refers to nothing outside.
#include "server/page/page.h"

#include <algorithm>
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

TEST_CASE("the document contains its style and its script, and refers to nothing outside") {
  const PagePart& document = page_parts().front();
  CHECK(document.path.empty());
  CHECK(document.bytes.starts_with("<!doctype html>"));
  for (const std::string_view left : {"@page_", "<script src", "@import", "sourceMappingURL"}) {
    INFO(left);
    CHECK(document.bytes.find(left) == std::string_view::npos);
  }
}

TEST_CASE("the page has KaTeX with its fonts, and highlight.js, as files of their own") {
  size_t n_fonts = 0;
  for (const PagePart& part : page_parts().subspan(1)) {
    INFO(part.path);
    CHECK(part.bytes.size() > 1000);
    if (part.type != "font/woff2") continue;
    CHECK(part.bytes.starts_with("wOF2"));
    // Style sheets name the fonts that the page has.
    const std::string url = "url(" + std::string(part.path) + ")";
    const auto sheet = std::ranges::find(page_parts(), std::string_view("katex.css"), &PagePart::path);
    REQUIRE(sheet != page_parts().end());
    CHECK(sheet->bytes.find(url) != std::string_view::npos);
    ++n_fonts;
  }
  CHECK(n_fonts == 20);
}

TEST_CASE("a client that has a file does not get it again") {
  const auto document = [](const HttpRequest& request) { return page(request); };
  const auto part = [](HttpRequest request) {
    request.path = "/page/math.js";
    return page_part(request);
  };
  CHECK(document({}).body == page_parts().front().bytes);
  const auto check_both = [](const auto& ask) {
    const HttpResponse first = ask(HttpRequest());
    CHECK(first.status == 200);
    CHECK(header_of(first, "X-Content-Type-Options") == "nosniff");
    HttpRequest request;
    request.headers = {{"If-None-Match", "W/\"other\", " + header_of(first, "ETag")}};
    const HttpResponse again = ask(request);
    CHECK(again.status == 304);
    CHECK(again.body.empty());
    CHECK(header_of(again, "Content-Security-Policy") == header_of(first, "Content-Security-Policy"));
  };
  check_both(document);
  check_both(part);
}

TEST_CASE("a file that the page does not have is refused by name") {
  for (const std::string path : {"/page/none.js", "/page/fonts/", "/page/"}) {
    HttpRequest request;
    request.path = path;
    const HttpResponse response = page_part(request);
    CHECK(response.status == 404);
    CHECK_THAT(response.body, ContainsSubstring("the page has no file '"));
  }
}

}  // namespace
}  // namespace hearth
