// Fuzzes constraints: compiles any bytes as a GBNF grammar, then generates a random text that the grammar
// allows. The first byte seeds the choices.
//
// Only ConstraintError may be thrown. If the grammar compiles, masks and accept() must agree, and there must
// be no dead ends, because the vocabulary has every byte.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "engine/constraint/constraint.h"
#include "engine/constraint/grammar/gbnf.h"
#include "engine/constraint/mask/token_trie.h"

namespace {

std::shared_ptr<const hearth::TokenTrie> vocabulary() {
  std::vector<std::string> pieces;
  for (int b = 0; b < 256; ++b) pieces.emplace_back(1, static_cast<char>(b));
  for (const char* piece : {"ab", "abc", "\":", "\",", " a", "  ", "                ", "aaaaaaaaaaaaaaaa",
                            "\xC3\xA9", "]]", "(((", "00"})
    pieces.emplace_back(piece);
  return std::make_shared<const hearth::TokenTrie>(pieces);
}

void walk(hearth::ConstraintState state, const hearth::TokenTrie& trie, std::mt19937& random) {
  for (int step = 0; step < 20; ++step) {
    const hearth::TokenMask mask = state.mask();
    if (state.must_end() && !state.may_end()) std::abort();
    if (mask.none() != state.must_end()) std::abort();  // a dead end, or more text after the end
    if (mask.none()) return;
    const std::string forced = state.forced();
    if (!forced.empty() && !mask.allows(static_cast<unsigned char>(forced[0]))) std::abort();
    auto token = static_cast<int32_t>(random() % trie.n_vocab());
    if (state.accept(token) != mask.allows(token)) std::abort();
    if (mask.allows(token)) continue;
    while (!mask.allows(token))
      token = static_cast<int32_t>((static_cast<size_t>(token) + 1) % trie.n_vocab());
    if (!state.accept(token)) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::shared_ptr<const hearth::TokenTrie> trie = vocabulary();
  if (size == 0) return 0;
  std::mt19937 random(data[0]);
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    const hearth::Grammar grammar = hearth::parse_gbnf(text);
    // The budget is small, because the fuzzer looks for crashes rather than for merely large grammars.
    const hearth::CompileBudget budget(5'000, 300'000);
    walk(hearth::ConstraintState(hearth::Constraint::compile(grammar, trie, budget)), *trie, random);
  } catch (const hearth::ConstraintError&) {
    return 0;
  }
  return 0;
}
