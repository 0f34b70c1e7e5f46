// Generates random members of a grammar's language, for tests that check them with another implementation.
// One thread.
#pragma once

#include <cstddef>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "engine/constraint/grammar/grammar.h"

namespace hearth::test {

class GrammarSampler {
 public:
  /// The grammar must outlive the sampler.
  GrammarSampler(const Grammar& grammar, unsigned seed);

  /// Returns a random member. Once it has about enough_bytes, it gets the shortest possible end. Returns
  /// nullopt if the language is empty, or if many attempts at an intersection or difference gave no member.
  std::optional<std::string> sample(size_t enough_bytes);

 private:
  static constexpr int kNever = 1 << 20;

  int height(Grammar::Expr expr) const;
  bool write(Grammar::Expr expr, std::string& out);
  bool write_choice(const Grammar::Node& node, std::string& out);
  bool write_repeat(const Grammar::Node& node, std::string& out);
  bool write_regular(Grammar::Expr expr, std::string& out);
  bool coin(double chance) { return std::uniform_real_distribution<>(0, 1)(random_) < chance; }
  size_t below(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }

  const Grammar& grammar_;
  std::mt19937 random_;
  std::vector<int> expr_heights_,
      rule_heights_;  // the fewest nested calls of any member; kNever if there is none
  size_t enough_bytes_ = 0;
};

}  // namespace hearth::test
