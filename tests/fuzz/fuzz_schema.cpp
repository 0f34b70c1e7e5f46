// Fuzzes the translation of JSON schemas and of regular expressions to grammars: any bytes, after a first
// byte that chooses one of the two.
//
// Only ConstraintError may be thrown, and soon. If the grammar compiles, a random walk generates a text that
// it allows. A complete text of a schema must be JSON.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "engine/constraint/constraint.h"
#include "engine/constraint/mask/token_trie.h"
#include "engine/constraint/regex/regex.h"
#include "engine/constraint/schema/json_schema.h"

namespace {

std::shared_ptr<const hearth::TokenTrie> all_bytes() {
  std::vector<std::string> pieces;
  for (int b = 0; b < 256; ++b) pieces.emplace_back(1, static_cast<char>(b));
  return std::make_shared<const hearth::TokenTrie>(pieces);
}

/// Returns a complete text if the walk ends soon, otherwise an empty one.
std::string walk(hearth::ConstraintState state, std::mt19937& random) {
  std::string text;
  while (text.size() < 60) {
    if (state.may_end() && (state.must_end() || random() % 4 == 0)) return text;
    const hearth::TokenMask mask = state.mask();
    if (mask.none()) std::abort();  // a dead end
    auto byte = static_cast<int32_t>(random() % 256);
    while (!mask.allows(byte)) byte = (byte + 1) % 256;
    if (!state.accept(byte)) std::abort();
    text += static_cast<char>(byte);
  }
  return "";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::shared_ptr<const hearth::TokenTrie> trie = all_bytes();
  if (size == 0) return 0;
  const bool is_schema = data[0] % 4 != 0;
  std::mt19937 random(data[0]);
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    const hearth::Grammar grammar =
        is_schema ? hearth::json_schema_grammar(text) : hearth::regex_grammar(text);
    // The budget is small, because the fuzzer looks for crashes rather than for merely large grammars.
    const hearth::CompileBudget budget(5'000, 300'000);
    const std::string whole =
        walk(hearth::ConstraintState(hearth::Constraint::compile(grammar, trie, budget)), random);
    if (is_schema && !whole.empty() && !nlohmann::json::accept(whole)) std::abort();
  } catch (const hearth::ConstraintError&) {
    return 0;
  }
  return 0;
}
