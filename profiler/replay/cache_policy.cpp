// See the header.
#include "profiler/replay/cache_policy.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <deque>
#include <numbers>
#include <numeric>
#include <set>
#include <utility>

#include "engine/residency/expert_cache.h"

namespace hearth {
namespace {

constexpr double kHalfLife = ExpertCache::Rules().half_lives.back();  // of kDecay, in tokens

/// Holds the experts that it was given and never exchanges them.
class FixedPolicy final : public CachePolicy {
 public:
  FixedPolicy(const ExpertTrace& trace, const std::vector<std::vector<int32_t>>& held) {
    for (const std::vector<int32_t>& of_layer : held) {
      std::vector<bool>& has = has_.emplace_back(static_cast<size_t>(trace.model.n_experts));
      for (const int32_t expert : of_layer) has[static_cast<size_t>(expert)] = true;
    }
  }

  int n_resident(size_t layer, std::span<const uint16_t> experts) const override {
    return static_cast<int>(std::ranges::count_if(experts, [&](uint16_t e) { return has_[layer][e]; }));
  }
  void use(size_t, std::span<const uint16_t>) override {}
  void end_token(double) override {}
  std::optional<Copy> next_copy() override { return std::nullopt; }
  void arrived(const Copy&) override {}

 private:
  std::vector<std::vector<bool>> has_;  // [layers][n_experts]
};

/// Ranks all layers' experts by a score. Every missed expert waits in a queue for a copy. When its turn
/// comes, it replaces the experts with the lowest scores, but only if its own score is higher.
class RankedPolicy final : public CachePolicy {
 public:
  RankedPolicy(ReplayPolicy kind, const ExpertTrace& trace, const KnownUse& known,
               const std::vector<std::vector<int32_t>>& held, double budget_bytes)
      : kind_(kind),
        trace_(trace),
        free_bytes_(budget_bytes),
        n_experts_(static_cast<size_t>(trace.model.n_experts)) {
    experts_.resize(trace.layers.size() * n_experts_);
    for (size_t layer = 0; layer < trace.layers.size(); ++layer) {
      for (size_t e = 0; e < n_experts_; ++e)
        experts_[layer * n_experts_ + e].score = first_score(known.per_token[layer][e]);
      for (const int32_t expert : held[layer]) {
        const size_t item = layer * n_experts_ + static_cast<size_t>(expert);
        experts_[item].state = State::kResident;
        resident_.emplace(experts_[item].score, item);
        free_bytes_ -= bytes_of(item);
      }
    }
  }

  int n_resident(size_t layer, std::span<const uint16_t> experts) const override {
    return static_cast<int>(std::ranges::count_if(
        experts, [&](uint16_t e) { return experts_[layer * n_experts_ + e].state == State::kResident; }));
  }

  void use(size_t layer, std::span<const uint16_t> experts) override {
    for (const uint16_t number : experts) {
      const size_t item = layer * n_experts_ + number;
      ExpertRank& expert = experts_[item];
      const double before = expert.score;
      expert.score = kind_ == ReplayPolicy::kLru ? static_cast<double>(n_tokens_) + 1 : before + weight_;
      if (expert.state == State::kResident) {
        resident_.erase({before, item});
        resident_.emplace(expert.score, item);
      } else if (expert.state == State::kInHost) {
        expert.state = State::kAwaited;
        queue_.push_back(item);
      }
    }
  }

  void end_token(double) override {
    ++n_tokens_;
    if (kind_ != ReplayPolicy::kDecay) return;
    weight_ *= std::exp2(1 / kHalfLife);
    if (weight_ > 0x1p500) fade();
  }

  std::optional<Copy> next_copy() override {
    while (!queue_.empty()) {
      const size_t item = queue_.front();
      queue_.pop_front();
      if (!make_room(item)) {
        experts_[item].state = State::kInHost;
        continue;
      }
      experts_[item].state = State::kArriving;
      return Copy{item / n_experts_, static_cast<int32_t>(item % n_experts_), 0,
                  trace_.layers[item / n_experts_].expert_bytes};
    }
    return std::nullopt;
  }

  void arrived(const Copy& copy) override {
    const size_t item = copy.layer * n_experts_ + static_cast<size_t>(copy.expert);
    experts_[item].state = State::kResident;
    resident_.emplace(experts_[item].score, item);
  }

 private:
  enum class State : uint8_t { kInHost, kAwaited, kArriving, kResident };
  struct ExpertRank {
    double score = 0;
    State state = State::kInHost;
  };

  /// Returns the score with which an expert begins if the training data uses it `use` times per token.
  double first_score(double use) const {
    if (kind_ == ReplayPolicy::kLru)
      return use / 2;  // lower than the score of a used expert, which is at least 1
    return kind_ == ReplayPolicy::kLfu ? use : use * kHalfLife / std::numbers::ln2;
  }
  double bytes_of(size_t item) const {
    return static_cast<double>(trace_.layers[item / n_experts_].expert_bytes);
  }

  /// Evicts experts with lower scores than the item's until it has room. If they do not free enough bytes,
  /// evicts none and returns false.
  bool make_room(size_t item) {
    double room = free_bytes_;
    auto end = resident_.begin();
    for (; room < bytes_of(item) && end != resident_.end() && end->first < experts_[item].score; ++end)
      room += bytes_of(end->second);
    if (room < bytes_of(item)) return false;
    for (auto it = resident_.begin(); it != end; ++it) experts_[it->second].state = State::kInHost;
    resident_.erase(resident_.begin(), end);
    free_bytes_ = room - bytes_of(item);
    return true;
  }

  void fade() {
    resident_.clear();
    for (size_t item = 0; item < experts_.size(); ++item) {
      experts_[item].score /= weight_;
      if (experts_[item].state == State::kResident) resident_.emplace(experts_[item].score, item);
    }
    weight_ = 1;
  }

  const ReplayPolicy kind_;
  const ExpertTrace& trace_;
  double free_bytes_;
  const size_t n_experts_;
  std::vector<ExpertRank> experts_;               // [layers * n_experts]
  std::set<std::pair<double, size_t>> resident_;  // by score
  std::deque<size_t> queue_;
  int64_t n_tokens_ = 0;
  double weight_ = 1;  // of a use by the current token
};

/// Lets ExpertCache decide what to copy, as ExpertExchanger does.
class LearnedPolicy final : public CachePolicy {
 public:
  LearnedPolicy(const ExpertTrace& trace, const KnownUse& known,
                const std::vector<std::vector<int32_t>>& held, double link_bytes_per_s)
      : trace_(trace), cache_(layers_of(trace, known, held), ExpertCache::Rules()) {
    double bytes = 0;
    for (const TracedLayer& layer : trace.layers)
      bytes = std::max(bytes, static_cast<double>(layer.expert_bytes));
    copy_s_ = bytes / link_bytes_per_s;
  }

  int n_resident(size_t layer, std::span<const uint16_t> experts) const override {
    return static_cast<int>(
        std::ranges::count_if(experts, [&](uint16_t e) { return cache_.has(static_cast<int>(layer), e); }));
  }

  void use(size_t layer, std::span<const uint16_t> experts) override {
    const std::vector<int32_t> used(experts.begin(), experts.end());
    std::vector<ExpertExchange> begun;
    cache_.use(static_cast<int>(layer), used, allowance_.n() - static_cast<int>(queue_.size()), begun);
    allowance_.spend(static_cast<int>(begun.size()));
    queue_.insert(queue_.end(), begun.begin(), begun.end());
  }

  void end_token(double seconds) override {
    allowance_.pass(seconds, copy_s_);
    cache_.end_token();
  }

  std::optional<Copy> next_copy() override {
    if (queue_.empty()) return std::nullopt;
    const ExpertExchange next = queue_.front();
    queue_.pop_front();
    const auto layer = static_cast<size_t>(next.layer);
    return Copy{layer, next.expert, next.row, trace_.layers[layer].expert_bytes};
  }

  void arrived(const Copy& copy) override { cache_.arrived(static_cast<int>(copy.layer), copy.row); }

 private:
  static std::vector<ExpertCache::Layer> layers_of(const ExpertTrace& trace, const KnownUse& known,
                                                   const std::vector<std::vector<int32_t>>& held) {
    std::vector<ExpertCache::Layer> layers;
    for (size_t i = 0; i < trace.layers.size(); ++i) {
      layers.push_back({.n_experts = trace.model.n_experts,
                        .hot = {},
                        .n_rows = static_cast<int>(held[i].size()),
                        .cached = held[i],
                        .use = known.per_token[i]});
    }
    return layers;
  }

  const ExpertTrace& trace_;
  ExpertCache cache_;
  CopyAllowance allowance_;
  double copy_s_ = 0;  // of the largest expert
  std::deque<ExpertExchange> queue_;
};

}  // namespace

std::string_view policy_name(ReplayPolicy policy) {
  constexpr std::array<std::string_view, 8> kNames = {"none",  "static",  "lru",      "lfu",
                                                      "decay", "learned", "prefetch", "optimum"};
  return kNames[static_cast<size_t>(policy)];
}

std::vector<std::vector<int32_t>> hottest_experts(const ExpertTrace& trace, const KnownUse& known,
                                                  double budget_bytes) {
  const auto n_experts = static_cast<size_t>(trace.model.n_experts);
  std::vector<size_t> order(trace.layers.size() * n_experts);
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](size_t item) {
    const auto bytes =
        static_cast<double>(std::max<uint64_t>(1, trace.layers[item / n_experts].expert_bytes));
    return known.per_token[item / n_experts][item % n_experts] / bytes;
  });
  std::vector<std::vector<int32_t>> hottest(trace.layers.size());
  for (const size_t item : order) {
    const auto bytes = static_cast<double>(trace.layers[item / n_experts].expert_bytes);
    if (bytes > budget_bytes) continue;
    budget_bytes -= bytes;
    hottest[item / n_experts].push_back(static_cast<int32_t>(item % n_experts));
  }
  return hottest;
}

std::unique_ptr<CachePolicy> make_policy(ReplayPolicy policy, const ExpertTrace& trace, const KnownUse& known,
                                         double budget_bytes, double link_bytes_per_s) {
  assert(policy != ReplayPolicy::kPrefetch && policy != ReplayPolicy::kOptimum);
  if (policy == ReplayPolicy::kNone) budget_bytes = 0;
  const std::vector<std::vector<int32_t>> held = hottest_experts(trace, known, budget_bytes);
  if (policy == ReplayPolicy::kNone || policy == ReplayPolicy::kStatic)
    return std::make_unique<FixedPolicy>(trace, held);
  if (policy == ReplayPolicy::kLearned)
    return std::make_unique<LearnedPolicy>(trace, known, held, link_bytes_per_s);
  return std::make_unique<RankedPolicy>(policy, trace, known, held, budget_bytes);
}

}  // namespace hearth
