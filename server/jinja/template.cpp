// Converts the variables of a rendering from JSON, and evaluates the parsed template.
#include "server/jinja/template.h"

#include <limits>

namespace hearth::jinja {
namespace {

Value number_from_json(const nlohmann::ordered_json& json) {
  if (json.is_number_float()) return Value::real(json.get<double>());
  if (json.is_number_unsigned() &&
      json.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return Value::real(json.get<double>());
  }
  return Value::integer(json.get<std::int64_t>());
}

// Converts JSON to a value. The value refers to strings in `json`, so `json` must outlive the heap. Keys keep
// their order. Throws Failure if `json` is nested too deeply.
Value from_json(const nlohmann::ordered_json& json, Heap& heap) {
  const Level level(heap.budget());
  if (json.is_string()) return Value::text(json.get_ptr<const std::string*>());
  if (json.is_boolean()) return Value::boolean(json.get<bool>());
  if (json.is_number()) return number_from_json(json);
  if (json.is_array()) {
    Sequence* list = heap.sequence(Sequence::Kind::list);
    for (const auto& item : json) heap.append(*list, from_json(item, heap));
    return Value::of(list);
  }
  if (json.is_object()) {
    Dict* dict = heap.dict();
    for (auto at = json.begin(); at != json.end(); ++at) {
      heap.set(*dict, Value::text(&at.key()), from_json(at.value(), heap));
    }
    return Value::of(dict);
  }
  return Value::none();
}

}  // namespace

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
