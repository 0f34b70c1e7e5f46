// What the keywords of schemas say that all hold for one value, gathered: the conjunction of their demands.
//
// Schemas are flattened before (flattening.h): $ref, allOf, anyOf and oneOf are not looked at here. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/constraint/schema/document.h"
#include "engine/constraint/schema/numbers/numbers.h"

namespace hearth {

/// Schemas that all hold for the same value. Those given first come first where order shows: in the order of properties.
using Schemas = std::vector<const SchemaNode*>;

/// A set of JSON types. A number is an integer or has a fraction.
namespace json_type {
constexpr unsigned kNull = 1, kBoolean = 2, kInteger = 4, kFraction = 8, kString = 16, kArray = 32,
                   kObject = 64;
constexpr unsigned kNumber = kInteger | kFraction, kAll = 127;
}  // namespace json_type

/// The type of a value.
unsigned type_of(const SchemaNode& value);

/// Least and most of something that is counted. A most above what is supported is lowered, which only leaves values out.
struct CountLimits {
  static constexpr int kMaxMembers = 10'000;   // of objects
  static constexpr int kMaxCount = 1'000'000;  // of characters and items
  int least = 0;
  std::optional<int> most{};
  bool impossible() const { return most && *most < least; }
};

/// One schema's keywords on the members of objects; what it leaves out is null.
struct ObjectPart {
  const SchemaNode* properties = nullptr;
  const SchemaNode* patterns = nullptr;
  const SchemaNode* additional = nullptr;
};

/// One schema's keywords on the items of arrays.
struct ArrayPart {
  std::vector<const SchemaNode*> prefix{};
  const SchemaNode* rest = nullptr;
  bool has_prefix = false;
};

struct Keywords {
  unsigned types = json_type::kAll;
  bool is_typed = false;          // did any schema name types?
  unsigned implied_types = 0;     // that keywords speak of
  std::vector<Schemas> values{};  // one list for each enum and const
  NumberLimits numbers{};
  const SchemaNode* multiple = nullptr;  // a multipleOf, for messages
  CountLimits length{};
  const SchemaNode* min_length = nullptr;  // the last one, for messages
  std::vector<const SchemaNode*> patterns{}, formats{};
  const SchemaNode* number_format = nullptr;  // int32 and the like, which no string can have
  std::vector<ObjectPart> objects{};
  std::vector<const SchemaNode*> required{};  // names
  Schemas names{};                            // propertyNames
  CountLimits properties{};
  std::vector<ArrayPart> arrays{};
  CountLimits items{};
  const SchemaNode* unique = nullptr;  // the keyword where uniqueItems is true

  /// The types that values are given, where no schema names any: those that keywords speak of.
  unsigned chosen_types() const;
};

/// Throws ConstraintError for a keyword that is malformed, unknown, or cannot be enforced.
Keywords gather_keywords(const Schemas& schemas);

}  // namespace hearth
