#include "server/chat/tools/python_literals.h"

#include "tests/support/catch.h"

namespace hearth {
namespace {

TEST_CASE("Python literals become JSON") {
  const auto json = [](const char* arguments) {
    return python_arguments_to_json(arguments).value_or("none");
  };
  CHECK(json("") == "{}");
  CHECK(json("a=1, b='x', c=\"y\"") == R"({"a":1,"b":"x","c":"y"})");
  CHECK(json(" a = True , b = None, c=false ") == R"({"a":true,"b":null,"c":false})");
  CHECK(json("a=[1, -2.5, (3,), []], b={'k': [True], \"l\": {}}") ==
        R"({"a":[1,-2.5,[3],[]],"b":{"k":[true],"l":{}}})");
  CHECK(json(R"(a='it\'s', b="\n\x41\u00e9\q")") == R"({"a":"it's","b":"\nAé\\q"})");
  CHECK(json(R"(a="\ud83d\ude42")") ==
        "{\"a\":\"\xF0\x9F\x99\x82\"}");  // JSON's escape, which the grammar permits
  CHECK(json("a=1,") == R"({"a":1})");
}

TEST_CASE("text that is not a Python literal is refused") {
  for (const char* bad : {"1", "a", "a=", "a=b", "a=1 b=2", "a=1, a=2", "a='x", "a=[1", "a={1: 2}", "a=f(1)",
                          "a=Truex", "a=1..2", "a='\\u12'", "a='\\ud800'", "a='\\ud83dx'", "a='\\ude42'",
                          "a='\\ud83d\\ud83d'", "=1", "a=[1,,2]"}) {
    INFO(bad);
    CHECK_FALSE(python_arguments_to_json(bad));
  }
  CHECK_FALSE(python_arguments_to_json("a=" + std::string(100'000, '[')));
}

TEST_CASE("the closing bracket is found outside of strings and other brackets") {
  const std::string text = R"--(a=")", b='\')', c=[(1), {'x': ")"}]) and more)--";
  PythonCallEnd end;
  size_t at = 0;
  while (at < text.size() && !end.push(text[at])) ++at;
  CHECK(text.substr(at) == ") and more");
}

}  // namespace
}  // namespace hearth
