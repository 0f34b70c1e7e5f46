// Tests which client a request from a proxy belongs to.
#include "server/gate/trusted_proxies.h"

#include "server/process/start_error.h"
#include "tests/support/catch.h"

using namespace hearth;

namespace {

std::string sender(const std::vector<std::string>& trusted, const std::string& connection,
                   const std::vector<std::string>& forwarded) {
  HttpRequest request;
  request.remote_address = connection;
  for (const std::string& line : forwarded) request.headers.emplace_back("x-Forwarded-For", line);
  return TrustedProxies(trusted).sender(request);
}

}  // namespace

TEST_CASE("the header is believed from trusted proxies only") {
  CHECK(sender({}, "127.0.0.1", {"192.0.2.7"}) == "127.0.0.1");
  CHECK(sender({"127.0.0.1"}, "127.0.0.1", {"192.0.2.7"}) == "192.0.2.7");
  CHECK(sender({"127.0.0.1"}, "::ffff:127.0.0.1", {"192.0.2.7"}) == "192.0.2.7");
  CHECK(sender({"127.0.0.1"}, "127.0.0.2", {"192.0.2.7"}) == "127.0.0.2");
  CHECK(sender({"127.0.0.1"}, "127.0.0.1", {}) == "127.0.0.1");
}

TEST_CASE("a client cannot forge its address: the last one that is not a proxy's counts") {
  CHECK(sender({"127.0.0.1"}, "127.0.0.1", {"10.9.9.9, 192.0.2.7"}) == "192.0.2.7");
  CHECK(sender({"127.0.0.1"}, "127.0.0.1", {"10.9.9.9", "192.0.2.7"}) == "192.0.2.7");
  CHECK(sender({"127.0.0.1", "10.0.0.0/8"}, "127.0.0.1", {"1.1.1.1, 192.0.2.7, 10.1.2.3"}) == "192.0.2.7");
  CHECK(sender({"10.0.0.0/8"}, "10.0.0.1", {"10.0.0.2, 10.0.0.3"}) == "10.0.0.2");
  CHECK(sender({"127.0.0.1"}, "127.0.0.1", {"192.0.2.7, unknown"}) == "127.0.0.1");
  CHECK(sender({"127.0.0.1"}, "127.0.0.1", {"192.0.2.7,"}) == "127.0.0.1");
  CHECK(sender({"127.0.0.1"}, "127.0.0.1", {std::string("192.0.2.7\0", 10)}) == "127.0.0.1");
}

TEST_CASE("addresses with ports and brackets are read") {
  CHECK(sender({"::1"}, "::1", {"192.0.2.7:4711"}) == "192.0.2.7");
  CHECK(sender({"::1"}, "::1", {"[2001:db8::1]:4711"}) == "2001:db8::1");
  CHECK(sender({"::1"}, "::1", {"2001:db8::1"}) == "2001:db8::1");
  CHECK(sender({"::1"}, "::1", {"["}) == "::1");
}

TEST_CASE("networks of any length") {
  CHECK(sender({"10.0.0.0/9"}, "10.127.0.1", {"192.0.2.7"}) == "192.0.2.7");
  CHECK(sender({"10.0.0.0/9"}, "10.128.0.1", {"192.0.2.7"}) == "10.128.0.1");
  CHECK(sender({"0.0.0.0/0"}, "203.0.113.9", {"192.0.2.7"}) == "192.0.2.7");
  CHECK(sender({"0.0.0.0/0"}, "2001:db8::1", {"192.0.2.7"}) == "2001:db8::1");
  CHECK(sender({"2001:db8::/32"}, "2001:db8:1::1", {"192.0.2.7"}) == "192.0.2.7");
  CHECK(sender({"::/0"}, "127.0.0.1", {"192.0.2.7"}) == "192.0.2.7");
}

TEST_CASE("a header with many entries is not read to its end") {
  std::string chain = "192.0.2.7";
  for (int i = 0; i < 1000; ++i) chain += ",10.0.0.1";
  CHECK(sender({"10.0.0.0/8"}, "10.0.0.1", {chain}) == "10.0.0.1");
}

TEST_CASE("text that is neither an address nor a network makes startup fail") {
  for (const char* text :
       {"", "proxy", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/8x", "10.0.0.0/-1", "::/129", "10.0.0/8"}) {
    INFO(text);
    CHECK_THROWS_WITH(TrustedProxies({text}), ContainsSubstring("--trusted-proxy is \"" + std::string(text)));
  }
}
