// The values of a GGUF file's keys: their types, and views of their bytes, which are checked once.
//
// The parser creates them when a file is opened, and ModelFile's accessors convert them to C++ values. Values
// own nothing: they point into the mapped file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/model/gguf/cursor.h"

namespace hearth::gguf {

/// The numbers are those that GGUF files store.
enum class ValueType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

struct Value {
  ValueType type = ValueType::kUint8;
  ValueType element = ValueType::kUint8;  // element type of an array
  uint64_t count = 1;                     // elements of an array
  std::span<const std::byte> bytes;       // the payload: an array's elements, a string's text, or the number
};

struct KeyValue {
  std::string_view key;
  Value value;
};

/// "uint32", "string", ...
std::string_view value_type_name(ValueType type);

/// "string", "array of 12 float32": the type of a key, for messages and listings.
std::string describe(const Value& value);

/// Reads a value's type and payload. Checks the type, every string of an array, the nesting depth of arrays,
/// and that booleans are 0 or 1. Checks the number of elements before it iterates over them. Throws
/// ModelFileError.
Value read_value(Cursor& cursor);

/// integer_at() reads a scalar of an integer type, float_at() a scalar of a float type. `bytes` must hold at
/// least fixed_size(type) bytes. Both return nullopt if `type` is of a different kind. integer_at() also
/// returns nullopt if an unsigned number exceeds int64_t. Booleans are not integers.
std::optional<int64_t> integer_at(ValueType type, const std::byte* bytes);
std::optional<double> float_at(ValueType type, const std::byte* bytes);

bool is_integer(ValueType type);
bool is_float(ValueType type);

/// Returns the size in bytes of a number or boolean of this type; 0 for strings and arrays.
size_t fixed_size(ValueType type);

}  // namespace hearth::gguf
