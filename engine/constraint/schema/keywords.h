// Gathers the keywords of schemas that all hold for one value. The result is the conjunction of their
// requirements.
//
// The schemas must have been flattened (flattening.h), so $ref, allOf, anyOf and oneOf are ignored here. One
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/constraint/schema/document.h"
#include "engine/constraint/schema/numbers/numbers.h"

namespace hearth {

/// Schemas that all hold for one value. Where their order matters, as for the order of properties, the first
/// schema takes precedence.
using Schemas = std::vector<const SchemaNode*>;

/// A set of JSON types as bits. Numbers are two types: integers, and numbers with a fraction.
namespace json_type {
constexpr unsigned kNull = 1, kBoolean = 2, kInteger = 4, kFraction = 8, kString = 16, kArray = 32,
                   kObject = 64;
constexpr unsigned kNumber = kInteger | kFraction, kAll = 127;
}  // namespace json_type

/// The type of a value.
unsigned type_of(const SchemaNode& value);

/// Minimum and maximum of a count. A maximum above the constants below is lowered to the constant. Then some
/// valid values cannot be generated.
struct CountLimits {
  static constexpr int kMaxMembers = 10'000;   // for members of objects
  static constexpr int kMaxCount = 1'000'000;  // for characters and items
  int least = 0;
  std::optional<int> most{};
  bool impossible() const { return most && *most < least; }
};

/// The keywords of one schema for the members of objects; null if absent.
struct ObjectPart {
  const SchemaNode* properties = nullptr;
  const SchemaNode* patterns = nullptr;
  const SchemaNode* additional = nullptr;
};

/// The keywords of one schema for the items of arrays.
struct ArrayPart {
  std::vector<const SchemaNode*> prefix{};
  const SchemaNode* rest = nullptr;
  bool has_prefix = false;
};

struct Keywords {
  unsigned types = json_type::kAll;
  bool is_typed = false;          // at least one schema names types
  unsigned implied_types = 0;     // types to which the keywords apply
  std::vector<Schemas> values{};  // one list for each enum and const
  NumberLimits numbers{};
  const SchemaNode* multiple = nullptr;  // one multipleOf, for messages
  CountLimits length{};
  const SchemaNode* min_length = nullptr;  // the last minLength, for messages
  std::vector<const SchemaNode*> patterns{}, formats{};
  const SchemaNode* number_format = nullptr;  // a format of numbers, such as int32; strings cannot have it
  std::vector<ObjectPart> objects{};
  std::vector<const SchemaNode*> required{};  // names
  Schemas names{};                            // propertyNames
  CountLimits properties{};
  std::vector<ArrayPart> arrays{};
  CountLimits items{};
  const SchemaNode* unique = nullptr;  // the keyword, if uniqueItems is true

  /// Returns the types that values may have. If no schema names types, these are the types to which the
  /// keywords apply.
  unsigned chosen_types() const;
};

/// Throws ConstraintError for a keyword that is malformed, unknown, or cannot be enforced.
Keywords gather_keywords(const Schemas& schemas);

}  // namespace hearth
