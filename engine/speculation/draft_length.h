// Decides how many drafted tokens a step computes, so that drafts never cost time: by what steps of so many tokens have
// taken, and by how often drafts of this kind were right.
//
// Owned by Speculation; engine thread. The choice depends on measured times. The tokens of an answer do not depend on it.
#pragma once

#include <array>
#include <span>
#include <vector>

namespace hearth {

/// What steps that only decode take, by their number of tokens, in the mode and with the load at hand.
class StepCosts {
 public:
  static constexpr int kMostTokens = 64;  // of a step that is measured

  void add(int n_tokens, double seconds);
  /// An estimate: between measured numbers a straight line, beyond the largest one its own time: to try costs one step.
  /// REQUIRES: n_tokens >= 1; something was measured.
  double seconds(int n_tokens) const;
  /// No step may have more tokens: sizes are tried by doubling, so that a bad one costs little. 0: nothing is known.
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

/// How likely the next drafted token is right if all before it were. Old observations fade.
class Acceptance {
 public:
  /// n_right tokens were right, then one was wrong or (`ended`) none.
  void add(int n_right, bool wrong, double memory);
  /// The share of right ones, starting from `prior` as if it had been observed on `weight` tokens.
  double share(double prior, double weight) const { return (right_ + prior * weight) / (tried_ + weight); }

 private:
  double right_ = 0, tried_ = 0;
};

/// A draft to choose the length of.
struct DraftChoice {
  double share = 0;       // Acceptance::share()
  int n_offered = 0;      // tokens that are, or can be, drafted
  bool modelled = false;  // by a model, which then has to run
  int n_computed = 0;     // out: those that are worth computing
};

/// What a model that drafts takes for the first token of all sequences that it drafts for, and for each further one.
struct ModelSeconds {
  double first = 0, each = 0;
};

/// Sets n_computed of all drafts so that a step of n_decoding tokens and those yields the most tokens a second. All 0 if
/// that is not clearly more than without any. Their sum is one below a power of two. n_more: drafted tokens of the step, at most.
/// Returns how many times as fast that promises to be; 1 if all are 0.
double choose_lengths(const StepCosts& costs, int n_decoding, int n_more, std::span<DraftChoice> drafts,
                      ModelSeconds model = {});

}  // namespace hearth
