#include "engine/constraint/forced_tokens.h"

#include <string>

#include "engine/constraint/mask/token_trie.h"

namespace hearth {

std::vector<int32_t> forced_tokens(const ConstraintState& state) {
  const std::string text = state.forced();
  if (text.empty()) return {};
  std::vector<int32_t> tokens = state.trie().encode(text);
  ConstraintState after = state;
  for (const int32_t token : tokens)
    if (!after.accept(token)) return {};  // never happens: forced text is allowed
  if (!tokens.empty() && !after.must_end()) tokens.pop_back();
  return tokens;
}

}  // namespace hearth
