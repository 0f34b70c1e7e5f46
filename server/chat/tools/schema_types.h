// Tells which JSON types a schema admits, so that a value that a model wrote without quotes can be read.
#pragma once

#include "server/json/json.h"

namespace hearth {

/// A set of JSON types, as bits.
namespace admitted {
inline constexpr unsigned kNull = 1, kBoolean = 2, kNumber = 4, kString = 8, kArray = 16, kObject = 32;
inline constexpr unsigned kAll = 63;
}  // namespace admitted

/// Returns the types that the values of `schema` may have, by the keywords type, nullable, enum, const, $ref,
/// anyOf, oneOf and allOf. kAll for a schema that says nothing about types, or is no schema. root: the
/// document to which a $ref refers ("#/$defs/city"). Visits at most about a thousand schemas.
unsigned admitted_types(const Json& root, const Json& schema);

/// Returns the type of a value.
unsigned type_of_value(const Json& value);

}  // namespace hearth
