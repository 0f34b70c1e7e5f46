// JsonScanner compared with the JSON library, over every value and every prefix of one.
#include "server/chat/tools/json_scanner.h"

#include <string>

#include "server/json/json.h"
#include "tests/support/catch.h"

namespace hearth {
namespace {

using Status = JsonScanner::Status;

/// The status at the byte that decides, or kMore; `at` is that byte's index.
Status scan(const std::string& text, size_t& at) {
  JsonScanner scanner;
  for (at = 0; at < text.size(); ++at) {
    const Status status = scanner.push(text[at]);
    if (status != Status::kMore) return status;
  }
  return Status::kMore;
}

TEST_CASE("values end where the JSON library ends them") {
  for (const std::string value :
       {"{}", "[]", "\"\"", "\"a\\\"b\\u00e9\\\\\"", "true", "false", "null", "[1, 2.5e-3, -0, [true], {}]",
        "{\"a\": {\"b\": []}, \"c\": 1}", " \n{ \"a\" : 1 , \"b\" : [ ] }", "[0]", "[-1.0E+5]"}) {
    INFO(value);
    REQUIRE(Json::accept(value));
    size_t at = 0;
    CHECK(scan(value + "x", at) == Status::kDone);
    CHECK(at + 1 == value.size());
    for (size_t n = 0; n < value.size(); ++n) CHECK(scan(value.substr(0, n), at) == Status::kMore);
  }
}

TEST_CASE("a number ends before the next byte") {
  for (const std::string value : {"0", "-0", "12", "1.5", "2e9", "2E-9"}) {
    size_t at = 0;
    CHECK(scan(value + " ", at) == Status::kDoneBefore);
    CHECK(at == value.size());
  }
}

TEST_CASE("invalid JSON is detected where the JSON library detects it") {
  for (const std::string value :
       {"}",       "]",           "{]",     "[}",  "[1,]",  "{\"a\":1,}", "{\"a\" 1}",
        "{1:1}",   "01x",         "-x",     "1.x", "1e+x",  "tru ",       "nulx",
        "\"\\x\"", "\"\\u12g4\"", "\"\n\"", "'a'", "[1 2]", "{\"a\":}",   "+1"}) {
    INFO(value);
    REQUIRE_FALSE(Json::accept(value));
    size_t at = 0;
    const Status status = scan(value, at);
    CHECK((status == Status::kBad || (status == Status::kDoneBefore && value == "01x")));
  }
}

TEST_CASE("the depth of nesting is limited") {
  size_t at = 0;
  CHECK(scan(std::string(JsonScanner::kMaxDepth, '['), at) == Status::kMore);
  CHECK(scan(std::string(JsonScanner::kMaxDepth + 1, '['), at) == Status::kBad);
}

}  // namespace
}  // namespace hearth
