// Chooses the draft length from measured step times and past acceptance rates, so that decoding with drafts
// is never slower than without.
//
// Owned by Speculation; engine thread. The choice depends on measured times, but the tokens of an answer do
// not.
#pragma once

#include <array>
#include <span>
#include <vector>

namespace hearth {

/// Durations of decode-only steps, indexed by their number of tokens, in the current mode and under the
/// current load.
class StepCosts {
 public:
  static constexpr int kMostTokens = 64;  // largest step that is measured

  void add(int n_tokens, double seconds);
  /// Estimates the duration of a step, by linear interpolation between measured sizes. Beyond the largest
  /// measured size, returns the duration of that size. This may be too low, but after one step of the larger
  /// size, a measurement replaces it.
  /// REQUIRES: n_tokens >= 1; something was measured.
  double seconds(int n_tokens) const;
  /// The maximum number of tokens that a step may have now: twice the largest measured size, so that the
  /// first try of a size that is too slow costs little. 0 if nothing was measured.
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

/// Estimates the probability that the next draft token is right if all draft tokens before it were right. Old
/// observations fade.
class Acceptance {
 public:
  /// Adds an observation: n_right tokens were right, and the next one was wrong if `wrong` is true. memory:
  /// the number of further tokens after which this observation counts only 1/e.
  void add(int n_right, bool wrong, double memory);
  /// Returns the share of draft tokens that were right. `prior` counts like a share observed on `weight`
  /// tokens.
  double share(double prior, double weight) const { return (right_ + prior * weight) / (tried_ + weight); }

 private:
  double right_ = 0, tried_ = 0;
};

/// A draft whose length is to be chosen.
struct DraftChoice {
  double share = 0;      // Acceptance::share()
  int n_offered = 0;     // tokens that are already drafted or can be drafted
  bool modeled = false;  // drafted by the draft model, which has to run first
  int n_computed = 0;    // out: tokens worth computing
};

/// Seconds that the draft model takes to draft one more token for each sequence: `first` for the first token,
/// `each` for every later token.
struct ModelSeconds {
  double first = 0, each = 0;
};

/// For a step of n_decoding tokens, chooses how many tokens of each draft it also computes (n_computed), so
/// that the step yields the most tokens per second. Sets all n_computed to 0 unless drafts are clearly faster
/// than a step without them. The sum of all n_computed is one below a power of two, and at most n_more.
/// Returns the expected speedup; 1 if all n_computed are 0.
double choose_lengths(const StepCosts& costs, int n_decoding, int n_more, std::span<DraftChoice> drafts,
                      ModelSeconds model = {});

}  // namespace hearth
