#include "server/chat/tools/marked_values.h"

#include "tests/support/catch.h"

namespace hearth {
namespace {

constexpr std::string_view kMark = "<|\"|>";

std::string json(const std::string& members) {
  return marked_members_to_json(members, kMark).value_or("none");
}

TEST_CASE("values between marks become JSON") {
  CHECK(json("") == "{}");
  CHECK(json("city:<|\"|>Bern<|\"|>,days:2") == R"({"city":"Bern","days":2})");
  CHECK(json("a:<|\"|>it's \"so\": {x}, [y]\\n<|\"|>") == R"({"a":"it's \"so\": {x}, [y]\\n"})");
  CHECK(json("a:[1,-2.5e3,true,null,<|\"|>x<|\"|>,[]],b:{c:{},<|\"|>d e<|\"|>:false}") ==
        R"({"a":[1,-2500.0,true,null,"x",[]],"b":{"c":{},"d e":false}})");
  CHECK(json(" a : 1 , b : [ 1 , 2 ] ,") == R"({"a":1,"b":[1,2]})");
  CHECK(json("a:<|\"|><|<|\"|>") == R"({"a":"<|"})");
}

TEST_CASE("JSON among marks, and words without marks, are read too") {
  CHECK(json(R"("a":"x\ny",b:{"c":[1]})") == R"({"a":"x\ny","b":{"c":[1]}})");
  CHECK(json("unit:celsius,exact:True,none:None") == R"({"unit":"celsius","exact":true,"none":null})");
}

TEST_CASE("text that is not in the notation is refused") {
  for (const char* bad : {"a", "a:", ":1", "a:1 b:2,", "a:1,a:2", "a:<|\"|>x", "a:[1", "a:{b}", "a:[1,,2]",
                          "{a:1}", "a:\"x", "a:1}", "a,b:1"}) {
    INFO(bad);
    CHECK((json(bad) == "none" || json(bad) == R"({"a":"1 b:2"})"));
  }
  CHECK(json("a:" + std::string(100'000, '[')) == "none");
}

TEST_CASE("the closing bracket is found outside of strings and other brackets, however the text is cut") {
  const std::string text = "a:<|\"|>}<|\"|>,b:[{c:\"\\\"}\"}],d:<|\"|>]<|<|\"|>}<tool_call|> and more }";
  const std::string_view rest = "<tool_call|> and more }";
  MarkedObjectEnd whole(kMark), bytewise(kMark);
  CHECK(text.substr(whole.find(text)) == rest);
  for (size_t n = 1; n <= text.size(); ++n) {
    const size_t end = bytewise.find(std::string_view(text).substr(0, n));
    if (end == std::string::npos) continue;
    CHECK(text.substr(end) == rest);
    CHECK(n == end);
    break;
  }
}

}  // namespace
}  // namespace hearth
