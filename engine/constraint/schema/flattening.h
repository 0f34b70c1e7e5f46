// Follows $ref and allOf. Given schemas that all hold for a value, returns the complete list of schemas that
// hold for it, and the choices (anyOf, oneOf) that are still to be made. No schemas are merged here:
// gather_keywords() (keywords.h) combines their keywords exactly.
//
// Refuses a schema that refers to itself without descending into the value, such as {"$ref": "#"}. One
// thread.
#pragma once

#include <cstddef>
#include <unordered_map>
#include <vector>

#include "engine/constraint/schema/document.h"
#include "engine/constraint/schema/keywords.h"

namespace hearth {

/// Counts the work on one document, so that a short schema cannot describe unlimited work.
class SchemaBudget {
 public:
  /// Maximum number of steps. A step is the visit of a schema, a keyword or a name. A schema with 5,000
  /// properties takes 100,000 steps.
  static constexpr size_t kMostSteps = 3'000'000;

  void take(size_t steps) {
    if (steps > left_)
      throw ConstraintError(
          "The schema takes too many steps to translate; make it smaller, with fewer combinations of anyOf, "
          "oneOf and "
          "allOf.",
          "#");
    left_ -= steps;
  }

 private:
  size_t left_ = kMostSteps;
};

class FlatSchemas {
 public:
  /// The schemas, without `true`, which requires nothing.
  Schemas schemas() const;
  /// Whether one of the schemas is `false`.
  bool impossible = false;
  /// Whether there is an anyOf or oneOf for which no alternative has been chosen.
  bool has_choice() const { return !choices_.empty(); }

 private:
  friend class SchemaFlattener;
  struct Entry {
    const SchemaNode* schema;
    int from;  // index of the entry whose schema refers to this one, or -1
    int depth;
  };
  struct Choice {
    const SchemaNode* keyword;
    int from;
  };
  std::vector<Entry> entries_;
  std::vector<Choice> choices_;
};

class SchemaFlattener {
 public:
  SchemaFlattener(SchemaDocument& document, SchemaBudget& budget) : document_(document), budget_(budget) {}

  /// Throws ConstraintError for references that are circular or point to nothing.
  FlatSchemas flatten(const Schemas& schemas);

  struct Alternatives {
    const SchemaNode* keyword;  // anyOf or oneOf
    /// For each alternative: the alternative's schemas, and the schemas that hold for every alternative.
    std::vector<FlatSchemas> flat;
  };
  /// Takes the first choice that is still open, and returns one FlatSchemas for each of its alternatives.
  /// REQUIRES: flat.has_choice().
  Alternatives choose(const FlatSchemas& flat);

 private:
  void add(FlatSchemas& flat, const SchemaNode& schema, int from);
  void add_parts(FlatSchemas& flat, const SchemaNode& schema, int entry);
  const SchemaNode& target(const SchemaNode& reference);

  SchemaDocument& document_;
  SchemaBudget& budget_;
  std::unordered_map<const SchemaNode*, const SchemaNode*> targets_;
};

}  // namespace hearth
