// The template interpreter on standard input and output, for tests/server/test_jinja_oracle.py: reads a line
// of JSON
// {"template": text, "context": object}, answers with a line {"output": text} or {"error": text, "line": n}.
// The clock stands at FROZEN_NOW of that script.
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "server/jinja/template.h"

namespace {

using Json = nlohmann::ordered_json;

// 2024-07-26 12:34:56, a Friday.
std::tm frozen_now() {
  std::tm now{};
  now.tm_year = 124;
  now.tm_mon = 6;
  now.tm_mday = 26;
  now.tm_hour = 12;
  now.tm_min = 34;
  now.tm_sec = 56;
  now.tm_wday = 5;
  now.tm_yday = 207;
  return now;
}

Json answer(const Json& request) {
  try {
    const hearth::jinja::Template parsed(request.at("template").get_ref<const std::string&>());
    hearth::jinja::Variables variables;
    const Json& context = request.at("context");
    for (auto at = context.begin(); at != context.end(); ++at) variables.emplace_back(at.key(), &at.value());
    return {{"output", parsed.render(variables, {}, frozen_now)}};
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
