// See the header.
#include "engine/tokenizer/same_vocabulary.h"

#include <algorithm>

namespace hearth {
namespace {

std::string name_of(const Vocabulary& vocabulary, int32_t token) {
  if (token < 0) return "none";
  return std::to_string(token) + " (\"" + vocabulary.texts[static_cast<size_t>(token)] + "\")";
}

bool is_padding(const Vocabulary& vocabulary, size_t from) {
  return std::all_of(vocabulary.types.begin() + static_cast<std::ptrdiff_t>(from), vocabulary.types.end(),
                     [](TokenType type) { return type == TokenType::kUnused; });
}

}  // namespace

std::optional<std::string> vocabulary_difference(const Vocabulary& model, const Vocabulary& other) {
  const size_t n = std::min(model.texts.size(), other.texts.size());
  for (size_t token = 0; token < n; ++token) {
    if (model.texts[token] == other.texts[token]) continue;
    return "token " + std::to_string(token) + " is \"" + other.texts[token] + "\" there and \"" +
           model.texts[token] + "\" in the model";
  }
  if (!is_padding(model, n) || !is_padding(other, n)) {
    return "it has " + std::to_string(other.size()) + " tokens there and " + std::to_string(model.size()) +
           " in the model, and the further ones are not padding";
  }
  const auto differs = [&](const char* what, int32_t of_model, int32_t of_other) {
    return std::string("the ") + what + " token is " + name_of(other, of_other) + " there and " +
           name_of(model, of_model) + " in the model";
  };
  if (model.bos != other.bos) return differs("begin", model.bos, other.bos);
  if (model.eos != other.eos) return differs("end", model.eos, other.eos);
  return std::nullopt;
}

}  // namespace hearth
