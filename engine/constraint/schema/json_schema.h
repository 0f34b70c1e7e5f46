// Translates JSON schemas to grammars of JSON texts. Supports draft 2020-12 and some forms of drafts 4 to 7.
// docs/structured.md lists the keywords.
//
// Every text of the grammar is valid under the schema. A keyword that cannot be enforced is never ignored: it
// is refused with a ConstraintError, whose where() is a JSON pointer into the schema
// ("#/properties/age/minimum"). Unknown keywords are refused unless they begin with "x-". Annotations (title,
// description, default, ...) are ignored. Not every valid value can be generated. The restrictions are:
//
// - Properties come in the schema's order. An object that declares properties has no other properties unless
//   additionalProperties allows them. An array with prefixItems has no further items unless `items` allows
//   them or minItems requires them.
// - A schema without a type gets the types to which its keywords apply. For example, a schema with
//   "properties" gets the type object.
// - Texts are spelled as described in json_text.h, numbers as in numbers/numbers.h. Maxima above the
//   supported counts are lowered to these counts (keywords.h).
//
// One thread; takes bounded time and memory for any text.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "engine/constraint/grammar/grammar.h"

namespace hearth {

Grammar json_schema_grammar(std::string_view schema_json);
/// Like json_schema_grammar(), but adds the rules to a larger grammar and returns an expression.
/// string_mark: if not empty, values are written with marks instead of as JSON (StringForm::kMarked).
Grammar::Expr json_schema_expression(Grammar& grammar, std::string_view schema_json,
                                     std::string_view string_mark = {});
/// Translates the properties of an object's schema one by one, as parts of one grammar. References may point
/// anywhere in the schema.
class JsonProperties {
 public:
  explicit JsonProperties(std::string_view schema_json);
  ~JsonProperties();

  // REQUIRES: the schema's "properties" is an object with a member named `name`; all calls pass the same
  // grammar.
  Grammar::Expr value(Grammar& grammar, std::string_view name);
  /// Return the values of value() in two parts: texts() returns the strings, without quotes and escapes, as
  /// an expression without calls, and others() returns the other values as JSON. nullopt if the part has no
  /// values.
  std::optional<Grammar::Expr> texts(Grammar& grammar, std::string_view name);
  std::optional<Grammar::Expr> others(Grammar& grammar, std::string_view name);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// Returns the grammar of any JSON object.
Grammar json_object_grammar();
Grammar::Expr json_object_expression(Grammar& grammar);

}  // namespace hearth
