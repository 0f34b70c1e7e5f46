// oneOf: no value may be valid under two alternatives. The alternatives are translated like those of anyOf
// once it is proven that they exclude each other. The proof may use types, listed values, bounds of numbers,
// lengths of strings or arrays, numbers of properties, or a required property.
#include <algorithm>

#include "engine/constraint/schema/translator.h"

namespace hearth {

using Kind = SchemaNode::Kind;
using namespace json_type;

namespace {

constexpr int kMaxProofDepth = 8;

bool ranges_apart(const CountLimits& a, const CountLimits& b) {
  return (a.most && *a.most < b.least) || (b.most && *b.most < a.least);
}

bool numbers_apart(const NumberLimits& a, const NumberLimits& b) {
  const auto ends_before = [](const auto& most, const auto& least) {
    if (!most || !least) return false;
    return most->value < least->value ||
           (most->value == least->value && !(most->inclusive && least->inclusive));
  };
  return ends_before(a.most, b.least) || ends_before(b.most, a.least);
}

}  // namespace

void SchemaTranslator::check_exclusive(const SchemaFlattener::Alternatives& alternatives) {
  const auto& flat = alternatives.flat;
  for (size_t j = 0; j < flat.size(); ++j)
    for (size_t i = 0; i < j; ++i)
      if (!are_disjoint(flat[i], flat[j], 0))
        refuse_schema(
            *alternatives.keyword,
            "It cannot be proven that no value matches both alternatives " + std::to_string(i) + " and " +
                std::to_string(j) +
                "; tell them apart by type or by a required property with a constant, or write anyOf.");
}

/// Returns true only if it is certain that no value is valid under both a and b.
bool SchemaTranslator::are_disjoint(const FlatSchemas& a, const FlatSchemas& b, int depth) {
  budget_.take(10 * (1 + a.schemas().size() + b.schemas().size()));
  if (a.impossible || b.impossible) return true;
  if (depth > kMaxProofDepth) return false;
  if (!a.has_choice() && !b.has_choice())
    return are_disjoint(gather_keywords(a.schemas()), gather_keywords(b.schemas()), depth);
  const bool split_a = a.has_choice();
  const SchemaFlattener::Alternatives parts = flattener_.choose(split_a ? a : b);
  return std::all_of(parts.flat.begin(), parts.flat.end(), [&](const FlatSchemas& part) {
    return split_a ? are_disjoint(part, b, depth + 1) : are_disjoint(a, part, depth + 1);
  });
}

bool SchemaTranslator::are_disjoint(const Keywords& a, const Keywords& b, int depth) {
  // A value is generated only with a type that chosen_types() returns for its schema, but a schema may also
  // accept values of other types (Keywords::types). So a generated value that is valid under both schemas has
  // a type that one of the schemas chose and the other schema accepts.
  const unsigned types = (a.chosen_types() & b.types) | (a.types & b.chosen_types());
  if (!a.values.empty() || !b.values.empty()) return !has_common_value(a, b);
  if (types & (kNull | kBoolean)) return false;
  if (types & kNumber && !numbers_apart(a.numbers, b.numbers)) return false;
  if (types & kString && !ranges_apart(a.length, b.length)) return false;
  if (types & kArray && !ranges_apart(a.items, b.items)) return false;
  return !(types & kObject) || ranges_apart(a.properties, b.properties) || objects_disjoint(a, b, depth);
}

/// Returns whether a listed value could be valid under both a and b. Compares objects and arrays only by
/// type.
bool SchemaTranslator::has_common_value(const Keywords& a, const Keywords& b) {
  const Keywords& listed = a.values.empty() ? b : a;
  Keywords other = a.values.empty() ? a : b;
  if (!other.values.empty()) {
    Keywords all = listed;
    all.values.insert(all.values.end(), other.values.begin(), other.values.end());
    return !common_values(all).empty();
  }
  other.formats.clear();  // assume that the value has every format: then no format excludes it
  for (const SchemaNode* value : common_values(listed)) {
    if ((other.types & type_of(*value)) == 0) continue;
    if (value->is(Kind::kObject) || value->is(Kind::kArray) || admits_scalar(other, *value)) return true;
  }
  return false;
}

/// Returns whether a or b requires a property for which no value is valid under both.
bool SchemaTranslator::objects_disjoint(const Keywords& a, const Keywords& b, int depth) {
  for (const Keywords* one : {&a, &b})
    for (const SchemaNode* name : one->required) {
      const FlatSchemas in_a = flattener_.flatten(property_schemas(a, name->text));
      const FlatSchemas in_b = flattener_.flatten(property_schemas(b, name->text));
      if (are_disjoint(in_a, in_b, depth + 1)) return true;
    }
  return false;
}

}  // namespace hearth
