// Chooses which experts of a mixture a GPU holds while tokens are generated.
//
// ExpertExchanger carries out its decisions, and hearth-profiler replay evaluates them
// (profiler/replay/cache_policy.h).
//
// This is bookkeeping only, without device, clock or thread. A layer has hot experts, which stay on the
// device, and rows of a cache for others. A row is free, arriving or resident. use() gives rows to other
// experts, which then arrive until arrived() is called. Experts that the device does not have are computed by
// the CPU: nothing ever waits for a copy. Equal calls give equal answers.
//
// Copies take RAM's bandwidth from the CPU, so a useless copy costs as much as a miss. Therefore an expert is
// copied only if it is expected to have Rules::margin more uses in the next kHorizon tokens than the expert
// that it replaces. set_margin() raises this number if an exchange costs more than its copy.
//
// The expected uses of an expert are a weighted sum of three counts of its past uses per token, which decay
// with half-lives of some tokens, of a paragraph and of several pages. How well each of them predicts depends
// on the model and the text. The shortest predicts well if tokens repeat the previous token's experts. It
// predicts nothing if all experts are used equally often, because the largest counts are then due to chance.
// So the weights are learned. For kHorizon tokens, the cache watches some of the possible exchanges, whether
// they were made or not. The weights are those that would have predicted the outcomes best (least squares).
// The watched exchanges are the most promising ones, and some look promising only by chance. The weights
// correct for that too.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace hearth {

/// An expert that takes a row of a layer's cache.
struct ExpertExchange {
  int layer = 0;
  int32_t expert = 0, row = 0;
  int32_t evicted = -1;  // the expert that the row held; -1: it was free
  bool operator==(const ExpertExchange&) const = default;
};

/// Limits the number of copies, so that the link is busy for at most three quarters of the time. The rest is
/// a reserve, because copies take RAM bandwidth from the CPU.
class CopyAllowance {
 public:
  /// Records that a token took this many seconds. copy_s: seconds that the link needs for one expert; 0: not
  /// known yet, which allows one copy.
  void pass(double seconds, double copy_s);
  /// Copies that may begin now.
  int n() const { return static_cast<int>(allowed_); }
  void spend(int n) { allowed_ -= n; }

 private:
  double allowed_ = 0;
};

class ExpertCache {
 public:
  struct Rules {
    double margin = 0.5;  // in uses; a copy costs as much as one use, or less if the CPU is idle
    /// Half-lives of the counts, in tokens, ascending. Replays of planted traces were best with these.
    std::array<double, 3> half_lives = {2, 32, 256};
  };
  /// The number of tokens within which an exchange has to pay off. It is small, because experts that one
  /// token uses are often used by the next tokens too, and because an exchange can be reversed later.
  static constexpr int kHorizon = 8;

  struct Layer {
    int n_experts = 0;
    std::vector<int32_t> hot;     // always on the device, in no row of the cache
    int n_rows = 0;               // of the cache
    std::vector<int32_t> cached;  // resident in the first rows; at most n_rows
    std::vector<double> use;      // [n_experts] known uses per token; empty: unknown
  };
  ExpertCache(std::span<const Layer> layers, const Rules& rules);

  /// Whether the device has the expert: it is hot or resident.
  bool has(int layer, int32_t expert) const {
    return layers_[static_cast<size_t>(layer)].experts[static_cast<size_t>(expert)].state == State::kOnDevice;
  }

  /// Records the experts that a token used in a layer. Several tokens of a step count as one token. Sets
  /// `out` to the layer's exchanges that begin now: at most n, the most useful first, and among equally
  /// useful ones the lower expert first. From now on the device does not have the evicted experts, and the
  /// others arrive. Returns the number of exchanges that do not begin only because n is too small.
  int use(int layer, std::span<const int32_t> experts, int n, std::vector<ExpertExchange>& out);

  /// Ends a token, or a step.
  void end_token();

  /// Sets the number of uses that replaces Rules::margin from now on.
  void set_margin(double margin) { rules_.margin = margin; }

  /// Reports that a row's expert is on the device. REQUIRES: it was arriving.
  void arrived(int layer, int32_t row);

  /// The learned weights of the counts.
  std::array<double, 3> weights() const { return weights_; }

 private:
  static constexpr size_t kUses = 3;  // counts of an expert
  using Uses = std::array<double, kUses>;

  enum class State : uint8_t { kInHost, kArriving, kOnDevice };
  struct Expert {
    Uses counts = {};       // decayed, in units of units_
    int64_t last = kNever;  // token of the last use
    State state = State::kInHost;
  };
  /// An exchange whose outcome is watched.
  struct Watch {
    int32_t in, out;
    int gain;  // uses of `in` minus uses of `out` so far
    int64_t end;
    Uses predicted;  // the same at the end, as each count alone predicts it
  };
  struct LayerState {
    std::vector<Expert> experts;
    std::vector<int32_t> rows;  // [n_rows] the expert in each, or -1
    std::vector<Watch> watches;
  };
  struct Offer {
    double gain;
    ExpertExchange exchange;
  };
  static constexpr int64_t kNever = INT64_MIN / 2;

  double expected(const Expert& expert) const;
  Uses predicted(const Expert& expert) const;
  void count(int layer, std::span<const int32_t> experts);
  std::span<const Offer> add_offers(int layer);
  void watch(const Offer& offer);
  void learn(const Watch& watch);
  void solve();
  void make(const ExpertExchange& exchange);
  void fade();

  Rules rules_;
  const Uses growth_;  // growth of units_ per token
  Uses seen_ = {};     // [k] the tokens that counts of kind k sum over, decayed like the counts
  Uses units_ = {};    // what a use by the current token counts; grows so that counts need not shrink
  Uses weights_ = {};
  std::array<Uses, kUses> squares_ = {};  // sums of products of each two predicted uses
  Uses products_ = {};                    // sums of products of predicted uses and outcomes
  int64_t token_ = 0;
  std::vector<LayerState> layers_;
  std::vector<Offer> offers_;    // of this token
  std::vector<int32_t> wanted_;  // missing experts that this token used in a layer
  std::vector<int32_t> places_;
};

}  // namespace hearth
