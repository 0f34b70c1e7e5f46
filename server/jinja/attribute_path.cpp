// Following attribute paths.
#include "server/jinja/attribute_path.h"

#include <string>

#include "server/jinja/text_ops.h"
#include "server/jinja/unicode.h"

namespace hearth::jinja {

Value follow(Evaluator& e, const Value& value, const Value* attribute, const Value* otherwise) {
  if (!attribute) return value;
  if (!attribute->is_text()) return e.item(value, *attribute);
  Value at = value;
  for (const std::string_view part : split_at(attribute->text(), ".", -1)) {
    const bool is_index =
        !part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == part.npos;
    at = is_index ? e.item(at, Value::integer(std::stoi(std::string(part))))
                  : e.item(at, e.heap().text(std::string(part)));
    if (otherwise && at.is_undefined()) return *otherwise;
  }
  return at;
}

Value fold_case(Evaluator& e, const Value& value, bool case_sensitive) {
  return value.is_text() && !case_sensitive ? e.heap().text(lower(value.text())) : value;
}

const Value* attribute_param(const Params& params, std::size_t i) {
  const Value* attribute = params.given(i);
  if (attribute && !attribute->is_text() && !attribute->is_integral()) {
    throw Failure("an attribute must be a name or an index, not " + attribute->type_name());
  }
  return attribute;
}

}  // namespace hearth::jinja
