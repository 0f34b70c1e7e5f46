// The template interpreter compared with texts made by Python's jinja2 (tests/data/templates/golden.json,
// written by tests/server/jinja/make_jinja_golden.py): whole chat templates over many conversations, and
// small snippets.
#include <fstream>
#include <sstream>

#include "server/jinja/template.h"
#include "tests/support/catch.h"
#include "tests/support/frozen_clock.h"

namespace hearth::jinja {
namespace {

using Json = nlohmann::ordered_json;

const std::string kFolder = hearth::testing::source_dir() + "/tests/data/templates/";

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file.good());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Variables variables_of(const Json& context) {
  Variables variables;
  for (auto at = context.begin(); at != context.end(); ++at) variables.emplace_back(at.key(), &at.value());
  return variables;
}

// The outcome in the form of golden.json's expectations.
Json outcome(const std::string& source, const Json& context) {
  try {
    return {{"output", Template(source).render(variables_of(context), {}, tests::frozen_clock)}};
  } catch (const TemplateError& error) {
    if (error.raised_by_template()) return {{"raised", error.what()}};
    return {{"fails", true}};
  }
}

TEST_CASE("chat templates print what jinja2 prints") {
  const Json golden = Json::parse(read_file(kFolder + "golden.json"));
  REQUIRE(golden["templates"].size() >= 12);
  for (const auto& [name, expectations] : golden["templates"].items()) {
    const std::string source = read_file(kFolder + name + ".jinja");
    for (const auto& [conversation, expected] : expectations.items()) {
      INFO(name << " with " << conversation);
      CHECK(outcome(source, golden["contexts"].at(conversation)) == expected);
    }
  }
}

TEST_CASE("snippets print what jinja2 prints") {
  const Json golden = Json::parse(read_file(kFolder + "golden.json"));
  REQUIRE(golden["snippets"].size() > 600);
  for (const Json& snippet : golden["snippets"]) {
    const std::string source = snippet[0].get<std::string>();
    INFO(source);
    CHECK(outcome(source, golden["snippet_context"]) == snippet[1]);
  }
}

}  // namespace
}  // namespace hearth::jinja
