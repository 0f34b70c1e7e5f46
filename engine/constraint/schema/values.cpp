// Values that a schema lists, held against its other keywords.
#include <algorithm>

#include "engine/constraint/regex/character_set.h"
#include "engine/constraint/schema/translator.h"

namespace hearth {

using Kind = SchemaNode::Kind;
using namespace json_type;

std::vector<const SchemaNode*> SchemaTranslator::common_values(const Keywords& keywords) {
  std::vector<const SchemaNode*> common;
  for (const SchemaNode* value : keywords.values[0]) {
    const auto is_in = [&](const Schemas& list) {
      budget_.take(4 * list.size());
      return std::any_of(list.begin(), list.end(),
                         [&](const SchemaNode* other) { return same_value(*value, *other); });
    };
    if (std::all_of(keywords.values.begin() + 1, keywords.values.end(), is_in)) common.push_back(value);
  }
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
      refuse_schema(*format, "It cannot be told whether the listed value " + json_quoted(value.text) +
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
  const std::u32string characters = code_points(text);
  budget_.take(regex_size(regex) * (characters.size() + 1) / 16);
  return regex_matches(regex, characters, match);
}

std::string SchemaTranslator::scalar_text(const SchemaNode& value) const {
  switch (value.kind) {
    case Kind::kNull:
      return "null";
    case Kind::kBoolean:
      return value.truth ? "true" : "false";
    case Kind::kString:
      return json_quoted(value.text);
    default:
      return value.text;
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
  const SchemaNode& nothing_else = document_.add(Kind::kBoolean, object.parent, object.key);  // false
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
  if (keywords.unique != nullptr && has_equal_items(array)) keywords.items.most = -1;  // impossible
  keywords.unique = nullptr;
  return keywords;
}

bool SchemaTranslator::has_equal_items(const SchemaNode& array) {
  budget_.take(array.children.size() * array.children.size());
  for (size_t i = 0; i < array.children.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (same_value(*array.children[i], *array.children[j])) return true;
  return false;
}

}  // namespace hearth
