// Gathers the keywords of schemas that all hold for one value: the conjunction of their requirements.
//
// Schemas are flattened first (flattening.h): $ref, allOf, anyOf and oneOf are ignored here. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/constraint/schema/document.h"
#include "engine/constraint/schema/numbers/numbers.h"

namespace hearth {

/// Schemas that all hold for one value. Where order matters (the order of properties), earlier ones come
/// first.
using Schemas = std::vector<const SchemaNode*>;

/// A set of JSON types. A number is an integer or has a fraction.
namespace json_type {
constexpr unsigned kNull = 1, kBoolean = 2, kInteger = 4, kFraction = 8, kString = 16, kArray = 32,
                   kObject = 64;
constexpr unsigned kNumber = kInteger | kFraction, kAll = 127;
}  // namespace json_type

/// The type of a value.
unsigned type_of(const SchemaNode& value);

/// Minimum and maximum of a count. A maximum above the supported one is lowered, which only excludes values.
struct CountLimits {
  static constexpr int kMaxMembers = 10'000;   // of objects
  static constexpr int kMaxCount = 1'000'000;  // of characters and items
  int least = 0;
  std::optional<int> most{};
  bool impossible() const { return most && *most < least; }
};

/// One schema's keywords for the members of objects; null if absent.
struct ObjectPart {
  const SchemaNode* properties = nullptr;
  const SchemaNode* patterns = nullptr;
  const SchemaNode* additional = nullptr;
};

/// One schema's keywords for the items of arrays.
struct ArrayPart {
  std::vector<const SchemaNode*> prefix{};
  const SchemaNode* rest = nullptr;
  bool has_prefix = false;
};

struct Keywords {
  unsigned types = json_type::kAll;
  bool is_typed = false;          // at least one schema names types
  unsigned implied_types = 0;     // the types of the keywords
  std::vector<Schemas> values{};  // one list for each enum and const
  NumberLimits numbers{};
  const SchemaNode* multiple = nullptr;  // one multipleOf, for messages
  CountLimits length{};
  const SchemaNode* min_length = nullptr;  // the last minLength, for messages
  std::vector<const SchemaNode*> patterns{}, formats{};
  const SchemaNode* number_format = nullptr;  // int32 and the like, which no string can have
  std::vector<ObjectPart> objects{};
  std::vector<const SchemaNode*> required{};  // names
  Schemas names{};                            // propertyNames
  CountLimits properties{};
  std::vector<ArrayPart> arrays{};
  CountLimits items{};
  const SchemaNode* unique = nullptr;  // the keyword, if uniqueItems is true

  /// The types that values may have. If no schema names types, the keywords imply them.
  unsigned chosen_types() const;
};

/// Throws ConstraintError for a keyword that is malformed, unknown, or cannot be enforced.
Keywords gather_keywords(const Schemas& schemas);

}  // namespace hearth
