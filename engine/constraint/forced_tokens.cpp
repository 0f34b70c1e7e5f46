#include "engine/constraint/forced_tokens.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "engine/constraint/mask/token_trie.h"

namespace hearth {

std::vector<int32_t> forced_tokens(const ConstraintState& state) {
  const std::string text = state.forced();
  if (text.empty()) return {};
  std::vector<int32_t> tokens = state.trie().encode(text);
  ConstraintState after = state;
  for (const int32_t token : tokens)
    if (!after.accept(token)) return {};  // never happens: forced text is allowed
  if (tokens.empty() || after.must_end()) return tokens;
  tokens.pop_back();
  ConstraintState at = state;
  std::string_view rest(text);
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto may_come = [&at](int32_t token) { return at.mask().allows(token); };
    if (std::ranges::any_of(state.trie().longer_tokens(rest), may_come)) {
      tokens.resize(i);
      break;
    }
    rest.remove_prefix(state.trie().bytes(tokens[i]).size());
    at.accept(tokens[i]);
  }
  return tokens;
}

}  // namespace hearth
