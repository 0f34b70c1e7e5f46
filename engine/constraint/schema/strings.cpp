// String schemas (lengths, patterns and formats) and property names.

#include <algorithm>

#include "engine/constraint/regex/regex.h"
#include "engine/constraint/schema/counted.h"
#include "engine/constraint/schema/string_formats.h"
#include "engine/constraint/schema/translator.h"

namespace hearth {

using Expr = Grammar::Expr;
using Kind = SchemaNode::Kind;
using namespace json_type;

std::string_view SchemaTranslator::pattern_of_format(const SchemaNode& format) const {
  const std::optional<std::string_view> pattern = format_pattern(format.text);
  if (!pattern)
    refuse_schema(format, "The format \"" + format.text + "\" is not supported for strings; these are: " +
                              supported_formats() + ". Leave it out, or write a pattern.");
  return *pattern;
}

Expr SchemaTranslator::pattern_string(const SchemaNode& where, std::string_view pattern, RegexMatch match) {
  const CharacterWriter writer = [&](Grammar&, std::span<const CharRange> set) {
    return text_.characters(set);
  };
  return text_.quoted(in_pattern(where, [&] { return regex_expression(grammar_, pattern, writer, match); }));
}

namespace {

/// Maximum number of characters that are counted in a string with a pattern or format, or in a property name.
/// In these strings and names, each counted character takes a separate state.
constexpr int kMostCounted = 2000;

}  // namespace

Expr SchemaTranslator::sized_string(const CountLimits& length) {
  const int most = length.most.value_or(Grammar::kNoMaximum);
  return text_.quoted(counted(grammar_, text_.character(), length.least, most));
}

Expr SchemaTranslator::sized_string_without_calls(const Keywords& keywords) {
  const auto [least, most] = keywords.length;
  if (least > kMostCounted)
    refuse_schema(
        *keywords.min_length,
        "Together with a pattern or a format, and in names of properties, \"minLength\" is at most " +
            std::to_string(kMostCounted) + "; lower it.");
  return text_.quoted(
      grammar_.repeat(text_.character(), least, most ? std::min(*most, kMostCounted) : Grammar::kNoMaximum));
}

Expr SchemaTranslator::string(const Keywords& keywords, bool with_calls) {
  if (keywords.number_format != nullptr) pattern_of_format(*keywords.number_format);
  if (keywords.length.impossible()) return grammar_.nothing();
  std::vector<Expr> all;
  for (const SchemaNode* format : keywords.formats)
    all.push_back(pattern_string(*format, pattern_of_format(*format), RegexMatch::kWhole));
  for (const SchemaNode* pattern : keywords.patterns)
    all.push_back(pattern_string(*pattern, pattern->text, RegexMatch::kSomewhere));
  if (keywords.length.least > 0 || keywords.length.most) {
    if (all.empty() && with_calls) return sized_string(keywords.length);
    all.push_back(sized_string_without_calls(keywords));
  }
  if (all.empty()) return with_calls ? text_.free_string() : text_.string();
  Expr common = all[0];
  for (size_t i = 1; i < all.size(); ++i) common = grammar_.both(common, all[i]);
  return common;
}

/// Returns the names that propertyNames allows, as an expression without calls.
Expr SchemaTranslator::name_expression(const FlatSchemas& flat) {
  if (flat.impossible) return grammar_.nothing();
  std::vector<Expr> options;
  if (flat.has_choice()) {
    const SchemaFlattener::Alternatives all = flattener_.choose(flat);
    if (all.keyword->key == "oneOf") check_exclusive(all);
    for (const FlatSchemas& alternative : all.flat) options.push_back(name_expression(alternative));
    return grammar_.choice(options);
  }
  const Keywords keywords = gather_keywords(flat.schemas());
  if ((keywords.types & kString) == 0) return grammar_.nothing();
  if (keywords.values.empty()) return string(keywords, false);
  for (const SchemaNode* value : common_values(keywords))
    if (value->is(Kind::kString)) options.push_back(constant(keywords, *value));
  return grammar_.choice(options);
}

/// Returns the names that propertyNames allows; nullopt if propertyNames does not list names.
std::optional<std::vector<std::string>> SchemaTranslator::listed_names(const Schemas& names) {
  const FlatSchemas flat = flattener_.flatten(names);
  if (flat.impossible) return std::vector<std::string>{};
  if (flat.has_choice()) return {};
  const Keywords keywords = gather_keywords(flat.schemas());
  if (keywords.values.empty()) return {};
  std::vector<std::string> list;
  for (const SchemaNode* value : common_values(keywords))
    if (value->is(Kind::kString) && admits_scalar(keywords, *value)) list.push_back(value->text);
  return list;
}

bool SchemaTranslator::is_name_allowed(const Schemas& names, const SchemaNode& where,
                                       const std::string& name) {
  if (names.empty()) return true;
  SchemaNode& text = document_.add(Kind::kString, &where, name);
  text.text = name;
  Schemas all = names;
  all.push_back(&constant_schema(text));
  return !grammar_.is_nothing(value(all));
}

}  // namespace hearth
