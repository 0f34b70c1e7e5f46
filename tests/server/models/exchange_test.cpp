// Heads of answers, and where redirects and tokens may go.
#include "server/models/exchange.h"

#include "profiler/store/hub.h"
#include "tests/support/catch.h"

using namespace hearth;

namespace {

TransferHead head_of(std::initializer_list<std::string_view> lines) {
  TransferHead head;
  for (const std::string_view line : lines) read_head_line(std::string(line) + "\r\n", head);
  return head;
}

}  // namespace

TEST_CASE("exchange: a response head is read, and a later one replaces it") {
  const TransferHead head = head_of({"HTTP/1.1 100 Continue", "", "HTTP/1.1 206 Partial Content",
                                     "ETag: W/\"abc\"", "content-length: 10", "Content-Range: bytes 5-14/100",
                                     "X-Linked-Etag: \"def\"", "Location: /x"});
  CHECK(head.status == 206);
  CHECK(head.etag == "abc");
  CHECK(head.linked_etag == "def");
  CHECK(head.content_length == 10u);
  CHECK(head.content_range == ByteRange{5, 15});
  CHECK(head.content_total == 100u);
  CHECK(head.location == "/x");
}

TEST_CASE("exchange: impossible ranges are not accepted") {
  for (const std::string_view bad :
       {"bytes 5-4/100", "bytes 5-100/100", "bytes */100", "bytes 5-14/*", "items 5-14/100",
        "bytes -5-14/100", "bytes 5-14", "", "bytes 5-18446744073709551616/18446744073709551617"}) {
    INFO(bad);
    const TransferHead head = head_of({"HTTP/1.1 206 x", "Content-Range: " + std::string(bad)});
    CHECK_FALSE(head.content_range.has_value());
    CHECK(head.bad_range);
  }
}

TEST_CASE("exchange: a token goes to the endpoint's own scheme, host and port only") {
  CHECK(may_carry_token("https://hub.example", "https://hub.example/a/b"));
  CHECK(may_carry_token("https://hub.example", "https://HUB.example:443/a"));
  for (const std::string_view other :
       {"http://hub.example/a", "https://hub.example:8443/a", "https://cdn.hub.example/a",
        "https://hub.example.evil.org/", "https://evil.org/https://hub.example"}) {
    INFO(other);
    CHECK_FALSE(may_carry_token("https://hub.example", std::string(other)));
  }
  CHECK_FALSE(may_carry_token("", "https://hub.example/"));
}

TEST_CASE("exchange: redirects lead to http and https, and never from https to http") {
  CHECK(next_url("https://a.example/x/y", "/z?q=1") == "https://a.example/z?q=1");
  CHECK(next_url("https://a.example/x/y", "https://b.example/z") == "https://b.example/z");
  CHECK(next_url("http://a.example/x", "https://a.example/x") == "https://a.example/x");
  CHECK(next_url("http://a.example/x", "http://b.example/x") == "http://b.example/x");
  for (const std::string_view bad :
       {"http://a.example/x", "file:///etc/passwd", "ftp://a.example/x", "", "gopher://x/"}) {
    INFO(bad);
    CHECK_THROWS_AS(next_url("https://a.example/x", std::string(bad)), PullError);
  }
}
