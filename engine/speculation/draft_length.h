// Chooses the draft length from measured step times and past acceptance rates, so that drafting is never
// slower.
//
// Owned by Speculation; engine thread. The choice depends on measured times, but the tokens of an answer do
// not.
#pragma once

#include <array>
#include <span>
#include <vector>

namespace hearth {

/// Duration of decode-only steps by their number of tokens, in the current mode and under the current load.
class StepCosts {
 public:
  static constexpr int kMostTokens = 64;  // largest step that is measured

  void add(int n_tokens, double seconds);
  /// An estimate: linear between measured sizes. Beyond the largest measured size it is that size's time,
  /// because a try costs only one step. REQUIRES: n_tokens >= 1; something was measured.
  double seconds(int n_tokens) const;
  /// The most tokens that a step may have now: larger sizes are tried by doubling, so that a bad one costs
  /// little. 0: nothing was measured.
  int most_tokens() const;
  void forget() { *this = {}; }

 private:
  struct Cost {
    double seconds = 0;
    int n_measured = 0;  // 0: unknown
    int age = 0;         // steps since the last measurement
  };
  int next_known(int n_tokens, int direction) const;

  std::array<Cost, kMostTokens + 1> costs_{};
};

/// Probability that the next draft token is right if all before it were. Old observations fade.
class Acceptance {
 public:
  /// Adds an observation: n_right tokens were right, followed by a wrong one if `wrong`. memory: the number
  /// of tokens to remember.
  void add(int n_right, bool wrong, double memory);
  /// Returns the share of right tokens, with `prior` counted as if it had been observed on `weight` tokens.
  double share(double prior, double weight) const { return (right_ + prior * weight) / (tried_ + weight); }

 private:
  double right_ = 0, tried_ = 0;
};

/// A draft to choose a length for.
struct DraftChoice {
  double share = 0;      // Acceptance::share()
  int n_offered = 0;     // tokens that are drafted or can be
  bool modeled = false;  // drafted by a model, which has to run first
  int n_computed = 0;    // out: tokens worth computing
};

/// The draft model's time for the first token of all its sequences together, and for each further one.
struct ModelSeconds {
  double first = 0, each = 0;
};

/// Sets n_computed of all drafts so that a step of n_decoding tokens and the computed draft tokens yields the
/// most tokens per second. Sets all to 0 unless that is clearly faster than a step without drafts. The sum of
/// all n_computed is one below a power of two. n_more: the most draft tokens in the step. Returns the
/// expected speedup; 1 if all are 0.
double choose_lengths(const StepCosts& costs, int n_decoding, int n_more, std::span<DraftChoice> drafts,
                      ModelSeconds model = {});

}  // namespace hearth
