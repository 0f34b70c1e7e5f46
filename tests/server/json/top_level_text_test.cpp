// Finding one text of a request's body without parsing the whole body.
#include "server/json/top_level_text.h"

#include "tests/support/catch.h"

using namespace hearth;

TEST_CASE("a text at the top level is found, wherever it is") {
  CHECK(top_level_text(R"({"model": "a"})", "model") == "a");
  CHECK(top_level_text(R"({"messages": [{"model": "b"}], "x": {"model": "c"}, "model": "a\u00e9"})",
                       "model") == "a\xC3\xA9");
  CHECK(top_level_text(R"({"x": "model", "model": "a"})", "model") == "a");
  CHECK(top_level_text(R"({"name": "a"})", "model").empty());
}

TEST_CASE("what is no text counts as absent") {
  for (const char* body : {"", "null", "[]", R"([{"model": "a"}])", R"({"model": 3})", R"({"model": null})",
                           R"({"model": ["a"]})", R"({"model": {"model": "a"}})", R"({"model")", "{", "{]"})
    CHECK(top_level_text(body, "model").empty());
}

TEST_CASE("the parse ends at the text, and at the first error before it") {
  CHECK(top_level_text(R"({"model": "a", nonsense)", "model") == "a");
  CHECK(top_level_text(R"({nonsense, "model": "a"})", "model").empty());
  // Deep nesting takes no stack.
  CHECK(top_level_text(std::string(1'000'000, '[') + "{", "model").empty());
  CHECK(top_level_text("{\"x\": " + std::string(1'000'000, '['), "model").empty());
}
