// Implements parsed_json().
#include "profiler/convert/checkpoint_json.h"

#include <nlohmann/json.hpp>

namespace hearth::convert {
namespace {

// A tokenizer's steps nest about 10 deep.
constexpr int kMostLevels = 64;

/// Returns whether brackets outside of strings nest deeper than kMostLevels. The result is exact for valid
/// JSON; the parser refuses all other text anyway.
bool nests_too_deep(std::string_view text) {
  int level = 0;
  bool in_text = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_text) {
      if (c == '\\') ++i;
      if (c == '"') in_text = false;
      continue;
    }
    in_text = c == '"';
    if (c == '[' || c == '{') ++level;
    if (c == ']' || c == '}') --level;
    if (level > kMostLevels) return true;
  }
  return false;
}

}  // namespace

nlohmann::json parsed_json(std::string_view text) {
  if (nests_too_deep(text)) return nlohmann::json(nlohmann::json::value_t::discarded);
  return nlohmann::json::parse(text, nullptr, false);
}

}  // namespace hearth::convert
