// Random grammars and vocabularies: constraints compared with a recognizer that shares no code with them.
//
// Byte by byte, every short text is compared with the reference. Whole tokens are then compared with their
// bytes.
#include <deque>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "engine/constraint/constraint.h"
#include "engine/constraint/mask/token_trie.h"
#include "tests/engine/constraint/random_grammar.h"
#include "tests/support/catch.h"
#include "tests/support/grammar_matcher.h"

namespace hearth {
namespace {

using test::GrammarMatcher;

/// A vocabulary of single letters: token n is the letter 'a' + n.
std::shared_ptr<const TokenTrie> letters(int n) {
  std::vector<std::string> pieces;
  for (int i = 0; i < n; ++i) pieces.emplace_back(1, static_cast<char>('a' + i));
  return std::make_shared<const TokenTrie>(pieces);
}

/// All texts up to some length that are in the language, and all that can be continued to such a text.
struct ShortTexts {
  std::set<std::string> in_language, prefixes;
};

ShortTexts short_texts(const Grammar& grammar, int n_letters, size_t length) {
  ShortTexts texts;
  GrammarMatcher matcher(grammar);
  std::string text(length, 'a');
  for (bool more = true; more;) {
    const uint64_t matching = matcher.matching_prefixes(text);
    for (size_t n = 0; n <= length; ++n) {
      if (((matching >> n) & 1) == 0) continue;
      texts.in_language.insert(text.substr(0, n));
      for (size_t m = 0; m <= n; ++m) texts.prefixes.insert(text.substr(0, m));
    }
    size_t place = length;
    while (place > 0 && text[place - 1] == 'a' + n_letters - 1) text[--place] = 'a';
    more = place > 0;
    if (more) ++text[place - 1];
  }
  return texts;
}

/// Compares one grammar, letter by letter.
class LetterComparison {
 public:
  LetterComparison(const Grammar& grammar, int n_letters, size_t length, ConstraintState start)
      : n_letters_(n_letters),
        length_(length),
        texts_(short_texts(grammar, n_letters, length)),
        matcher_(grammar) {
    compare("", std::move(start));
  }
  size_t n_compared() const { return n_compared_; }

 private:
  void compare(const std::string& text, ConstraintState state) {
    INFO("after '" << text << "'");
    ++n_compared_;
    REQUIRE(state.may_end() == texts_.in_language.contains(text));
    compare_forced(text, state);
    if (text.size() == length_) return;
    bool is_last = true;
    for (int32_t letter = 0; letter < n_letters_; ++letter) {
      const std::string longer = text + static_cast<char>('a' + letter);
      const bool allowed = state.mask().allows(letter);
      is_last &= !allowed;
      ConstraintState next = state;
      if (next.accept(letter) != allowed) FAIL("mask and accept differ for '" << longer << "'");
      if (!allowed && texts_.prefixes.contains(longer)) FAIL("not allowed: '" << longer << "'");
      if (!allowed) continue;
      require_completion(longer, next);
      compare(longer, next);
    }
    REQUIRE(state.must_end() == is_last);
  }

  /// Checks that an allowed text can be completed to a text of the language. The shortest completion is
  /// checked with the reference.
  void require_completion(const std::string& text, const ConstraintState& state) {
    if (texts_.prefixes.contains(text)) return;
    std::deque<std::pair<std::string, ConstraintState>> open{{text, state}};
    for (int n = 0; !open.empty() && n < 1000; ++n) {
      auto [at, place] = std::move(open.front());
      open.pop_front();
      if (place.may_end()) {
        INFO("completed to '" << at << "'");
        REQUIRE(matcher_.matches(at));
        return;
      }
      if (place.mask().none()) FAIL("a dead end behind '" << at << "'");
      if (at.size() == GrammarMatcher::kMostBytes) continue;
      for (int32_t letter = 0; letter < n_letters_; ++letter) {
        ConstraintState next = place;
        if (next.accept(letter)) open.emplace_back(at + static_cast<char>('a' + letter), next);
      }
    }
    ++n_too_long_;
  }

  void compare_forced(const std::string& text, const ConstraintState& state) {
    const std::string forced = state.forced();
    INFO("forced '" << forced << "'");
    const std::string longer = text + forced;
    for (auto it = texts_.in_language.lower_bound(text);
         it != texts_.in_language.end() && it->starts_with(text); ++it)
      REQUIRE((it->size() >= longer.size() && it->starts_with(longer)));
    // After the forced text there is a choice, or the text may end.
    ConstraintState after = state;
    for (const char c : forced) {
      REQUIRE_FALSE(after.may_end());
      REQUIRE(after.accept(c - 'a'));
    }
    int n_ways = after.may_end() ? 2 : 0;
    for (int32_t letter = 0; letter < n_letters_; ++letter) n_ways += after.mask().allows(letter) ? 1 : 0;
    REQUIRE(n_ways >= 2);
  }

  const int n_letters_;
  const size_t length_;
  const ShortTexts texts_;
  GrammarMatcher matcher_;
  size_t n_compared_ = 0, n_too_long_ = 0;
};

bool reads(ConstraintState state, const std::string& piece) {
  for (const char c : piece)
    if (!state.accept(c - 'a')) return false;
  return !piece.empty();
}

/// Follows random tokens for some steps, and compares each mask with the letters of every token.
void compare_tokens(std::mt19937& random, const std::vector<std::string>& pieces, ConstraintState by_token,
                    ConstraintState by_letter) {
  for (int step = 0; step < 12; ++step) {
    std::vector<int32_t> allowed;
    for (int32_t token = 0; token < static_cast<int32_t>(pieces.size()); ++token) {
      const std::string& piece = pieces[static_cast<size_t>(token)];
      const bool is_allowed = reads(by_letter, piece);
      const bool in_mask = by_token.mask().allows(token);
      if (is_allowed) allowed.push_back(token);
      // Uses plain conditions, because millions of Catch's assertions would take a minute.
      if (in_mask == is_allowed && (is_allowed || !by_token.accept(token))) continue;
      FAIL("step " << step << ", token '" << piece << "': by its letters " << is_allowed << ", by the mask "
                   << in_mask);
    }
    if (allowed.empty()) return;
    const int32_t chosen = allowed[random() % allowed.size()];
    REQUIRE(by_token.accept(chosen));
    for (const char c : pieces[static_cast<size_t>(chosen)]) REQUIRE(by_letter.accept(c - 'a'));
    REQUIRE(by_token.may_end() == by_letter.may_end());
    REQUIRE(by_token.must_end() == by_letter.must_end());
    REQUIRE(by_token.forced() == by_letter.forced());
  }
}

/// Returns null if the grammar is refused; the reason must then be true of its language.
std::shared_ptr<const Constraint> compile(const Grammar& grammar, int n_letters, size_t length) {
  try {
    return Constraint::compile(grammar, letters(n_letters));
  } catch (const ConstraintError& error) {
    INFO(error.what());
    if (std::string(error.what()).find("matches no text") != std::string::npos)
      REQUIRE(short_texts(grammar, n_letters, length).in_language.empty());
    return nullptr;
  }
}

TEST_CASE("constraint: random grammars allow what the reference allows") {
  size_t n_compiled = 0, n_compared = 0, n_ambiguous = 0;
  for (int round = 0; round < 300; round += HEARTH_TEST_STRIDE) {
    INFO("round " << round);
    std::mt19937 random(static_cast<unsigned>(round));
    const int n_letters = 2 + static_cast<int>(random() % 3);
    const size_t length = n_letters == 2 ? 8 : n_letters == 3 ? 5 : 4;
    const Grammar grammar = test::random_grammar(random, n_letters);
    const std::shared_ptr<const Constraint> constraint = compile(grammar, n_letters, length);
    if (constraint == nullptr) continue;
    ++n_compiled;
    n_compared += LetterComparison(grammar, n_letters, length, ConstraintState(constraint)).n_compared();
    const std::vector<std::string> pieces = test::random_vocabulary(random, n_letters, 40);
    const auto by_token = Constraint::compile(grammar, std::make_shared<const TokenTrie>(pieces));
    try {
      for (int walk = 0; walk < 3; ++walk)
        compare_tokens(random, pieces, ConstraintState(by_token), ConstraintState(constraint));
    } catch (const ConstraintError&) {
      ++n_ambiguous;
    }
  }
  // The comparison must not be empty: most grammars compile, and allow more than a few texts.
  CHECK(n_compiled * HEARTH_TEST_STRIDE > 180);
  CHECK(n_compared > n_compiled * 10);
  CHECK(n_ambiguous * 10 < n_compiled);
}

}  // namespace
}  // namespace hearth
