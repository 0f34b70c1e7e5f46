// Translates schemas to expressions. This is the implementation of json_schema.h, which defines the result.
// One thread, one document.
//
// The unit of translation is a conjunction: a list of schemas that all hold for one value. Each member of
// this value has a separate conjunction. The conjunction of a property, for example, consists of all schemas
// that apply to the property. The translation of each conjunction is stored, so that a recursive schema
// becomes rules that call each other.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/constraint/regex/regex.h"
#include "engine/constraint/schema/document.h"
#include "engine/constraint/schema/flattening.h"
#include "engine/constraint/schema/json_text.h"
#include "engine/constraint/schema/keywords.h"

namespace hearth {

class SchemaTranslator {
 public:
  /// form: how strings are written; kPlain only if all values are strings. string_mark: the mark, for kMarked
  /// only.
  SchemaTranslator(Grammar& grammar, SchemaDocument& document, StringForm form,
                   std::string_view string_mark = {})
      : grammar_(grammar),
        document_(document),
        text_(grammar, form, string_mark),
        flattener_(document, budget_) {}

  /// Returns the values that all the schemas allow; nothing() if it is evident that there are none. Without
  /// schemas, returns any value.
  Grammar::Expr value(Schemas schemas);

  /// The reason why value() last excluded all values: a sentence, and the schema to which it applies. Used in
  /// the error message if a schema allows no value at all.
  const std::optional<std::pair<std::string, const SchemaNode*>>& contradiction() const {
    return contradiction_;
  }

 private:
  using Expr = Grammar::Expr;
  struct Known {
    bool under_way = false;
    std::optional<Grammar::Rule> rule{};  // set for values with objects or arrays, and for values that refer
                                          // to themselves while they are translated
    std::optional<Expr> expression{};
  };
  struct DeclaredName {
    std::string name;
    const SchemaNode* where;
    bool required = false;
  };
  struct DeclaredNames {
    std::vector<DeclaredName> order{};
    std::unordered_map<std::string, size_t> index{};
    void add(const std::string& name, const SchemaNode* where);
  };

  // json_schema.cpp: types and choices
  Expr flat_value(const FlatSchemas& flat, int depth);
  Expr alternatives(const FlatSchemas& flat, int depth);
  Expr typed_value(const Schemas& schemas);
  Expr number(const Keywords& keywords, unsigned types, const SchemaNode& where);
  Expr listed_value(const Keywords& keywords);
  Expr constant(const Keywords& keywords, const SchemaNode& value);
  Expr contradict(const SchemaNode& where, const std::string& sentence);
  Expr as_rule(Expr expression, const std::string& name);

  // objects.cpp
  Expr object(const Keywords& keywords);
  DeclaredNames declared_names(const Keywords& keywords);
  bool is_open(const Keywords& keywords) const;
  Schemas property_schemas(const Keywords& keywords, const std::string& name);
  Expr member(Expr name, Expr inner) { return text_.sequence({name, text_.colon(), inner}); }
  std::optional<Expr> extra_members(const Keywords& keywords, const DeclaredNames& declared, bool open);
  Expr extra_name(const Keywords& keywords, const DeclaredNames& declared,
                  const std::vector<const SchemaNode*>& patterns, unsigned matched);

  // arrays.cpp
  Expr array(const Keywords& keywords);
  Expr item_list(const std::vector<Expr>& first, std::optional<Expr> rest, const CountLimits& limits);
  Expr distinct_items(const Keywords& keywords);
  Schemas item_schemas(const Keywords& keywords, size_t index);

  // strings.cpp
  Expr string(const Keywords& keywords, bool with_calls);
  Expr sized_string(const CountLimits& length);
  Expr sized_string_without_calls(const Keywords& keywords);
  Expr pattern_string(const SchemaNode& where, std::string_view pattern, RegexMatch match);
  std::string_view pattern_of_format(const SchemaNode& format) const;
  Expr name_expression(const FlatSchemas& flat);
  std::optional<std::vector<std::string>> listed_names(const Schemas& names);
  bool is_name_allowed(const Schemas& names, const SchemaNode& where, const std::string& name);

  // values.cpp: values that are listed
  bool is_in(const Schemas& list, const SchemaNode& value);
  std::vector<const SchemaNode*> common_values(const Keywords& keywords);
  bool admits_scalar(const Keywords& keywords, const SchemaNode& value);
  bool admits_string(const Keywords& keywords, const SchemaNode& value);
  bool regex_holds(const SchemaNode& where, std::string_view pattern, std::string_view text,
                   RegexMatch match);
  Expr scalar(const SchemaNode& value);
  const SchemaNode& constant_schema(const SchemaNode& value);
  Keywords with_members_of(Keywords keywords, const SchemaNode& object);
  Keywords with_items_of(Keywords keywords, const SchemaNode& array);
  bool has_equal_items(const SchemaNode& array);

  // disjoint.cpp
  void check_exclusive(const SchemaFlattener::Alternatives& alternatives);
  bool are_disjoint(const FlatSchemas& a, const FlatSchemas& b, int depth);
  bool are_disjoint(const Keywords& a, const Keywords& b, int depth);
  bool has_common_value(const Keywords& a, const Keywords& b);
  bool objects_disjoint(const Keywords& a, const Keywords& b, int depth);

  /// Adds a location to errors that have none.
  template <typename Work>
  static auto at(const SchemaNode& where, const Work& work) {
    try {
      return work();
    } catch (const ConstraintError& error) {
      throw ConstraintError(error.what(), error.where().empty() ? json_pointer(where) : error.where());
    }
  }
  /// Adds the location of the pattern's schema to errors of a regular expression.
  template <typename Work>
  static auto in_pattern(const SchemaNode& where, const Work& work) {
    try {
      return work();
    } catch (const ConstraintError& error) {
      const std::string position = error.where().empty() ? "" : " (" + error.where() + " of the pattern)";
      throw ConstraintError(error.what() + position, json_pointer(where));
    }
  }

  Grammar& grammar_;
  SchemaDocument& document_;
  JsonText text_;
  SchemaBudget budget_;
  SchemaFlattener flattener_;
  std::map<Schemas, Known> known_;
  std::unordered_map<const SchemaNode*, RegexNode> regexes_;            // by the pattern's node
  std::unordered_map<const SchemaNode*, const SchemaNode*> constants_;  // {"const": value} by value
  std::optional<std::pair<std::string, const SchemaNode*>> contradiction_;
  size_t n_brackets_ = 0;  // number of objects and arrays so far
  int depth_ = 0;          // nesting depth of value()
};

}  // namespace hearth
