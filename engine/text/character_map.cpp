// The double array and its strings: see the header. The file is not trusted: a search ends when a step leaves
// the array, and an offset outside the pool counts as no match.
#include "engine/text/character_map.h"

#include <algorithm>

#include "engine/model/model_file.h"
#include "kernels/base/utf8.h"

namespace hearth {
namespace {

constexpr std::string_view kReplacementBytes = "\xEF\xBF\xBD";  // U+FFFD
constexpr size_t kUnitBytes = 4;

uint32_t little_endian(std::string_view bytes) {
  uint32_t number = 0;
  for (size_t i = 0; i < kUnitBytes; ++i)
    number |= static_cast<uint32_t>(static_cast<uint8_t>(bytes[i])) << (8 * i);
  return number;
}

// Layout of an array element (a unit), from the lowest bit: the label of the step that leads here (8 bits);
// whether the unit has a value (1 bit); whether the offset is to be multiplied by 256 (1 bit); the offset to
// its children (21 bits); 0 (1 bit). A unit that stores a value has the top bit set, and the value in the
// other bits.
bool has_value(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t label_of(uint32_t unit) { return unit & (1U << 31 | 0xFF); }
uint32_t offset_of(uint32_t unit) { return (unit >> 10) << ((unit & 1U << 9) >> 6); }
uint32_t value_of(uint32_t unit) { return unit & ~(1U << 31); }

}  // namespace

CharacterMap::CharacterMap(std::string_view bytes, const std::string& file) {
  const auto refuse = [&](const std::string& what) {
    throw ModelFileError(file + ": tokenizer.ggml.precompiled_charsmap " + what +
                         "; the file is damaged, convert the model again");
  };
  if (bytes.size() < kUnitBytes)
    refuse("has " + std::to_string(bytes.size()) + " bytes, expected at least 4");
  const size_t array_bytes = little_endian(bytes);
  bytes.remove_prefix(kUnitBytes);
  if (array_bytes > bytes.size() || array_bytes % kUnitBytes != 0) {
    refuse("says that its array has " + std::to_string(array_bytes) +
           " bytes, expected a multiple of 4 up to " + std::to_string(bytes.size()));
  }
  for (size_t at = 0; at < array_bytes; at += kUnitBytes) units_.push_back(little_endian(bytes.substr(at)));
  pool_ = bytes.substr(array_bytes);
  if (!pool_.empty() && pool_.back() != '\0') refuse("does not end with a 0 byte, as its strings do");
}

CharacterMap::Rewritten CharacterMap::front(std::string_view text) const {
  size_t longest = 0;
  size_t place = 0;
  size_t node = units_.empty() ? 0 : offset_of(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const uint8_t byte = static_cast<uint8_t>(text[i]);
    node ^= byte;
    if (byte == 0 || node >= units_.size() || label_of(units_[node]) != byte) break;
    const uint32_t unit = units_[node];
    node ^= offset_of(unit);
    if (!has_value(unit) || node >= units_.size() || value_of(units_[node]) >= pool_.size()) continue;
    longest = i + 1;
    place = value_of(units_[node]);
  }
  if (longest > 0) return {std::string_view(pool_.data() + place), longest};
  const Utf8Char first = utf8_front(text);
  if (first.status != Utf8Status::kWhole) return {kReplacementBytes, 1};
  return {text.substr(0, first.length), first.length};
}

}  // namespace hearth
