// Putting parser and evaluator together.
#include "server/jinja/template.h"

#include "server/jinja/json_bridge.h"
#include "server/jinja/parser.h"

namespace hearth::jinja {

std::tm local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return local;
}

Template::Template(std::string_view source) : body_(parse(source)) {}

std::string Template::render(const Variables& variables, const Limits& limits, const Clock& clock) const {
  Evaluator evaluator(limits, clock);
  Scope* globals = nullptr;
  try {
    globals = evaluator.heap().scope(nullptr);
    for (const auto& [name, json] : variables) {
      globals->set(name, from_json(*json, evaluator.heap()), evaluator.budget());
    }
  } catch (const Failure& failure) {
    throw TemplateError(1, std::string("the input of the template: ") + failure.what());
  }
  return evaluator.render(body_, globals);
}

}  // namespace hearth::jinja
