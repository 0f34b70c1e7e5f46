// Checks the values that a schema lists against its other keywords.
#include <algorithm>

#include "engine/constraint/schema/translator.h"
#include "kernels/base/utf8.h"

namespace hearth {

using Expr = Grammar::Expr;
using Kind = SchemaNode::Kind;
using namespace json_type;

bool SchemaTranslator::is_in(const Schemas& list, const SchemaNode& value) {
  return std::any_of(list.begin(), list.end(), [&](const SchemaNode* other) {
    budget_.take(3 + std::min(value.n_nodes, other->n_nodes));
    return same_value(value, *other);
  });
}

std::vector<const SchemaNode*> SchemaTranslator::common_values(const Keywords& keywords) {
  std::vector<const SchemaNode*> common;
  for (const SchemaNode* value : keywords.values[0])
    if (std::all_of(keywords.values.begin() + 1, keywords.values.end(),
                    [&](const Schemas& list) { return is_in(list, *value); }))
      common.push_back(value);
  return common;
}

bool SchemaTranslator::admits_scalar(const Keywords& keywords, const SchemaNode& value) {
  if ((keywords.types & type_of(value)) == 0) return false;
  if (value.is(Kind::kString)) return admits_string(keywords, value);
  if (!value.is(Kind::kNumber)) return true;
  const std::optional<Decimal> number = parse_decimal(value.text);
  if (!number)
    refuse_schema(value,
                  "The number has too many digits, or its exponent is beyond 400; write a shorter one.");
  return at(value, [&] { return satisfies(*number, keywords.numbers); });
}

bool SchemaTranslator::admits_string(const Keywords& keywords, const SchemaNode& value) {
  const auto length = static_cast<int64_t>(code_points(value.text).size());
  if (length < keywords.length.least || (keywords.length.most && length > *keywords.length.most))
    return false;
  for (const SchemaNode* pattern : keywords.patterns)
    if (!regex_holds(*pattern, pattern->text, value.text, RegexMatch::kSomewhere)) return false;
  for (const SchemaNode* format : keywords.formats)
    if (!regex_holds(*format, pattern_of_format(*format), value.text, RegexMatch::kWhole))
      refuse_schema(*format, "It cannot be determined whether the listed value " + json_quoted(value.text) +
                                 " has this format; leave the format out.");
  return true;
}

bool SchemaTranslator::regex_holds(const SchemaNode& where, std::string_view pattern, std::string_view text,
                                   RegexMatch match) {
  const auto known = regexes_.find(&where);
  const RegexNode& regex =
      known != regexes_.end()
          ? known->second
          : regexes_.emplace(&where, in_pattern(where, [&] { return parse_regex(pattern); })).first->second;
  return regex_matches(regex, code_points(text), match,
                       [&](size_t n_places) { budget_.take(1 + n_places / 16); });
}

Expr SchemaTranslator::scalar(const SchemaNode& value) {
  switch (value.kind) {
    case Kind::kNull:
      return text_.text("null");
    case Kind::kBoolean:
      return text_.text(value.truth ? "true" : "false");
    case Kind::kString:
      return text_.constant(value.text);
    default:
      return text_.text(value.text);
  }
}

/// The schema {"const": value}.
const SchemaNode& SchemaTranslator::constant_schema(const SchemaNode& value) {
  const SchemaNode*& known = constants_[&value];
  if (known != nullptr) return *known;
  SchemaNode& schema = document_.add(Kind::kObject, value.parent, value.key);
  SchemaNode& copy = document_.add(value.kind, &schema, "const");
  copy.truth = value.truth;
  copy.text = value.text;
  copy.children = value.children;
  copy.n_nodes = value.n_nodes;
  schema.children = {&copy};
  known = &schema;
  return schema;
}

Keywords SchemaTranslator::with_members_of(Keywords keywords, const SchemaNode& object) {
  budget_.take(object.children.size());
  SchemaNode& properties = document_.add(Kind::kObject, object.parent, object.key);
  for (const SchemaNode* member : object.children) {
    properties.children.push_back(&constant_schema(*member));
    SchemaNode& name = document_.add(Kind::kString, &object, member->key);
    name.text = member->key;
    keywords.required.push_back(&name);
  }
  const SchemaNode& nothing_else = document_.add(Kind::kBoolean, object.parent, object.key);  // `false`
  keywords.objects.push_back({.properties = &properties, .additional = &nothing_else});
  return keywords;
}

Keywords SchemaTranslator::with_items_of(Keywords keywords, const SchemaNode& array) {
  const auto n = static_cast<int>(array.children.size());
  budget_.take(array.children.size());
  if (n > CountLimits::kMaxMembers) refuse_schema(array, "The list is too long; make it shorter.");
  ArrayPart part{.rest = &document_.add(Kind::kBoolean, array.parent, array.key), .has_prefix = true};
  for (const SchemaNode* item : array.children) part.prefix.push_back(&constant_schema(*item));
  keywords.arrays.push_back(std::move(part));
  keywords.items.least = std::max(keywords.items.least, n);
  // No array satisfies uniqueItems then.
  if (keywords.unique != nullptr && has_equal_items(array)) keywords.items.most = -1;
  keywords.unique = nullptr;
  return keywords;
}

bool SchemaTranslator::has_equal_items(const SchemaNode& array) {
  Schemas before;
  for (const SchemaNode* item : array.children) {
    if (is_in(before, *item)) return true;
    before.push_back(item);
  }
  return false;
}

}  // namespace hearth
