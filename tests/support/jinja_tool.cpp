// The template interpreter on standard input and output, for tests/server/jinja/test_jinja_oracle.py. Reads a
// line of JSON {"template": text, "context": object} and answers with a line {"output": text} or {"error":
// text, "line": n}.
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "server/jinja/template.h"
#include "tests/support/frozen_clock.h"

namespace {

using Json = nlohmann::ordered_json;

Json answer(const Json& request) {
  try {
    const hearth::jinja::Template parsed(request.at("template").get_ref<const std::string&>());
    hearth::jinja::Variables variables;
    const Json& context = request.at("context");
    for (auto at = context.begin(); at != context.end(); ++at) variables.emplace_back(at.key(), &at.value());
    return {{"output", parsed.render(variables, {}, hearth::tests::frozen_clock)}};
  } catch (const hearth::jinja::TemplateError& error) {
    return {{"error", error.what()}, {"line", error.line()}};
  }
}

}  // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line)) std::cout << answer(Json::parse(line)).dump() << std::endl;
  return 0;
}
