// Checks values while a file is opened, and converts scalars afterward.
#include "engine/model/gguf/gguf_value.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/base/file_error.h"

namespace hearth::gguf {
namespace {

struct TypeFacts {
  std::string_view name;
  size_t bytes;  // 0: variable
};

constexpr std::array<TypeFacts, 13> kFacts = {{
    {"uint8", 1},
    {"int8", 1},
    {"uint16", 2},
    {"int16", 2},
    {"uint32", 4},
    {"int32", 4},
    {"float32", 4},
    {"bool", 1},
    {"string", 0},
    {"array", 0},
    {"uint64", 8},
    {"int64", 8},
    {"float64", 8},
}};

// The format allows arrays of arrays, but no known file has them. The limit bounds the stack of the
// recursion.
constexpr int kMaxNesting = 4;

// The largest array in use is a vocabulary's merges (under a million). The limit bounds the time to walk
// through an array and the memory to convert it, whatever the file's size.
constexpr uint64_t kMaxElements = uint64_t{1} << 24;

constexpr uint64_t kStringHeader = 8;  // the string's length
constexpr uint64_t kArrayHeader = 12;  // element type and count

template <typename T>
T load(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

ValueType read_type(Cursor& cursor) {
  const uint32_t type = cursor.read<uint32_t>();
  if (type >= kFacts.size()) {
    cursor.fail("has value type " + std::to_string(type) +
                ", expected 0 to 12: the file is corrupt or newer than this program; download it again");
  }
  return static_cast<ValueType>(type);
}

uint64_t smallest_size(ValueType type) {
  if (type == ValueType::kString) return kStringHeader;
  if (type == ValueType::kArray) return kArrayHeader;
  return fixed_size(type);
}

void check_bools(const Cursor& cursor, std::span<const std::byte> bytes) {
  for (const std::byte byte : bytes) {
    if (std::to_integer<unsigned>(byte) > 1) {
      cursor.fail("holds a boolean with value " + std::to_string(std::to_integer<unsigned>(byte)) +
                  ", expected 0 or 1: the file is corrupt; download it again");
    }
  }
}

Value read_array(Cursor& cursor, int depth);

void skip_elements(Cursor& cursor, const Value& array, int depth) {
  if (array.element == ValueType::kString) {
    for (uint64_t i = 0; i < array.count; ++i) cursor.read_string();
  } else if (array.element == ValueType::kArray) {
    for (uint64_t i = 0; i < array.count; ++i) read_array(cursor, depth + 1);
  } else {
    const std::span<const std::byte> bytes = cursor.take(array.count * fixed_size(array.element));
    if (array.element == ValueType::kBool) check_bools(cursor, bytes);
  }
}

Value read_array(Cursor& cursor, int depth) {
  if (depth > kMaxNesting) {
    cursor.fail("nests arrays more than " + std::to_string(kMaxNesting) +
                " deep: the file is corrupt; download it again");
  }
  Value array;
  array.type = ValueType::kArray;
  array.element = read_type(cursor);
  array.count = cursor.read<uint64_t>();
  const uint64_t room = cursor.remaining() / smallest_size(array.element);
  if (array.count > room || array.count > kMaxElements) {
    cursor.fail("claims an array of " + file_error::with_commas(array.count) +
                " elements, expected at most " + file_error::with_commas(std::min(room, kMaxElements)) +
                (array.count > room ? " in what is left of the file" : "") +
                ": it is truncated or corrupt; download it again");
  }
  const Cursor start = cursor;
  skip_elements(cursor, array, depth);
  array.bytes = Cursor(start).take(cursor.at() - start.at());
  return array;
}

}  // namespace

std::string_view value_type_name(ValueType type) { return kFacts[static_cast<size_t>(type)].name; }

std::string describe(const Value& value) {
  if (value.type != ValueType::kArray) return std::string(value_type_name(value.type));
  return "array of " + file_error::with_commas(value.count) + ' ' +
         std::string(value_type_name(value.element));
}

Value read_value(Cursor& cursor) {
  Value value;
  value.type = read_type(cursor);
  if (value.type == ValueType::kArray) return read_array(cursor, 1);
  if (value.type == ValueType::kString) {
    const std::string_view text = cursor.read_string();
    value.bytes = std::as_bytes(std::span(text.data(), text.size()));
    return value;
  }
  value.bytes = cursor.take(fixed_size(value.type));
  if (value.type == ValueType::kBool) check_bools(cursor, value.bytes);
  return value;
}

std::optional<int64_t> integer_at(ValueType type, const std::byte* bytes) {
  switch (type) {
    case ValueType::kUint8:
      return load<uint8_t>(bytes);
    case ValueType::kInt8:
      return load<int8_t>(bytes);
    case ValueType::kUint16:
      return load<uint16_t>(bytes);
    case ValueType::kInt16:
      return load<int16_t>(bytes);
    case ValueType::kUint32:
      return load<uint32_t>(bytes);
    case ValueType::kInt32:
      return load<int32_t>(bytes);
    case ValueType::kInt64:
      return load<int64_t>(bytes);
    case ValueType::kUint64: {
      const uint64_t value = load<uint64_t>(bytes);
      if (value > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
      return static_cast<int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

std::optional<double> float_at(ValueType type, const std::byte* bytes) {
  if (type == ValueType::kFloat32) return static_cast<double>(load<float>(bytes));
  if (type == ValueType::kFloat64) return load<double>(bytes);
  return std::nullopt;
}

bool is_integer(ValueType type) {
  return fixed_size(type) != 0 && !is_float(type) && type != ValueType::kBool;
}

bool is_float(ValueType type) { return type == ValueType::kFloat32 || type == ValueType::kFloat64; }

size_t fixed_size(ValueType type) { return kFacts[static_cast<size_t>(type)].bytes; }

}  // namespace hearth::gguf
