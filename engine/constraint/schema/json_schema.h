// JSON schemas (2020-12, and what draft 4 to 7 share with it) as grammars of JSON texts. docs/structured.md has the keywords.
//
// Every text of the grammar is valid under the schema. What cannot be enforced is refused, never dropped: ConstraintError with
// where() a JSON pointer into the schema, "#/properties/age/minimum". Unknown keywords are refused, unless they begin with "x-";
// annotations (title, description, default, ...) are ignored. Not every valid value can be written; these are the choices:
//
// - Properties stand in the schema's order. An object that declares properties has no others, unless additionalProperties
//   says so; the same goes for items behind prefixItems.
// - A schema without a type means the types that its keywords speak of: with "properties" an object.
// - Texts are spelled as json_text.h says, numbers as numbers/numbers.h says. Maxima above what is counted are lowered to it (keywords.h).
//
// One thread; takes a bounded time and memory for any text.
#pragma once

#include <memory>
#include <string_view>

#include "engine/constraint/grammar/grammar.h"

namespace hearth {

Grammar json_schema_grammar(std::string_view schema_json);
/// The same as a part of a larger grammar.
Grammar::Expr json_schema_expression(Grammar& grammar, std::string_view schema_json);
/// The properties of an object's schema, each by itself, as parts of one grammar. References go to the whole schema.
class JsonProperties {
 public:
  explicit JsonProperties(std::string_view schema_json);
  ~JsonProperties();

  // REQUIRES: "properties" is an object that has the name, and the grammar is the same in all calls.
  Grammar::Expr value(Grammar& grammar, std::string_view name);
  /// Of a property of type string: its values without quotes and escapes. Contains no calls.
  Grammar::Expr text(Grammar& grammar, std::string_view name);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// Any JSON object.
Grammar json_object_grammar();
Grammar::Expr json_object_expression(Grammar& grammar);

}  // namespace hearth
