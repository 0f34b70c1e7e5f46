// See the header.
#include "engine/residency/expert_exchanger.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <utility>

namespace hearth {
namespace {

/// The share of this thread's time for exchanges that makes steps longer. During the rest of that time, the
/// thread would wait for the device anyway. Simulated steps are fastest with about this number.
constexpr double kLostShare = 0.4;

std::vector<ExpertCache::Layer> cache_layers(const std::vector<ExpertExchanger::Layer>& layers) {
  std::vector<ExpertCache::Layer> of_cache;
  for (const ExpertExchanger::Layer& layer : layers) {
    const std::span<const int32_t> held = layer.slabs->experts();
    of_cache.push_back({.n_experts = static_cast<int>(layer.host.size()),
                        .hot = {},
                        .n_rows = static_cast<int>(held.size()),
                        .cached = {held.begin(), held.end()},
                        .use = layer.use});
  }
  return of_cache;
}

/// The number of experts of any layer that can be exchanged at a time.
int most_changes(std::span<const ExpertExchanger::Layer> layers, const HybridExperts& device) {
  const auto of_layer = [&](const ExpertExchanger::Layer& layer) {
    return device.most_changes(layer.host.front());
  };
  int most = of_layer(layers.front());
  for (const ExpertExchanger::Layer& layer : layers) most = std::min(most, of_layer(layer));
  return most;
}

double seconds_since(HostClock::time_point begin) {
  return std::chrono::duration<double>(HostClock::now() - begin).count();
}

void set_bit(std::vector<uint64_t>& bits, int32_t i, bool value) {
  uint64_t& word = bits[static_cast<size_t>(i / 64)];
  const uint64_t bit = uint64_t{1} << (i % 64);
  word = value ? word | bit : word & ~bit;
}

}  // namespace

ExpertExchanger::ExpertExchanger(const std::vector<Layer>& layers, HybridExperts& device,
                                 double ram_bytes_per_s)
    : layers_(layers),
      device_(device),
      cache_(cache_layers(layers), ExpertCache::Rules()),
      most_changes_(most_changes(layers, device)),
      use_seconds_(ram_bytes_per_s > 0
                       ? static_cast<double>(expert_bytes(layers.front().host.front())) / ram_bytes_per_s
                       : 0) {
  for (size_t i = 0; i < layers_.size(); ++i) {
    index_[layers_[i].layer] = static_cast<int>(i);
    std::vector<uint64_t>& bits = resident_.emplace_back((layers_[i].host.size() + 63) / 64);
    for (const int32_t expert : layers_[i].slabs->experts()) set_bit(bits, expert, true);
  }
}

bool ExpertExchanger::can_exchange(std::span<const Layer> layers, const HybridExperts& device) {
  return !layers.empty() && most_changes(layers, device) > 0;
}

void ExpertExchanger::begin_step(const Batch& batch) {
  counts_step_ = batch.prompt_rows.empty();
  begin_ = HostClock::now();
  first_ = std::exchange(next_first_, 0);
  if (under_way_.empty()) return;
  // The buffers of the copies are needed for the experts of a long step, so such a step completes all
  // exchanges first. The device waits for the copies then, but the host does not.
  complete(counts_step_ ? device_.changes_arrived() : static_cast<int>(under_way_.size()));
}

void ExpertExchanger::use(int layer, const ExpertChoice& choice) {
  const auto found = index_.find(layer);
  if (!counts_step_ || found == index_.end()) return;
  const Layer& of = layers_[static_cast<size_t>(found->second)];
  int most = std::min(allowance_.n(), most_changes_ - static_cast<int>(under_way_.size()));
  if (found->second < first_) most = 0;
  if (most == 0 && found->second >= first_ && next_first_ == 0) next_first_ = found->second;
  const auto n_pairs = static_cast<size_t>(choice.n_tokens) * static_cast<size_t>(choice.n_used);
  const int n_refused = cache_.use(found->second, {choice.experts, n_pairs}, most, begun_);
  totals_.refused += static_cast<uint64_t>(n_refused);
  if (begun_.empty()) return;
  allowance_.spend(static_cast<int>(begun_.size()));
  const HostClock::time_point begin = HostClock::now();
  for (const ExpertExchange& exchange : begun_) {
    const Expert& expert = of.host[static_cast<size_t>(exchange.expert)];
    device_.begin_change({.slot = exchange.row,
                          .expert = exchange.expert,
                          .evicted = exchange.evicted,
                          .from = &expert,
                          .layer = &of.slabs->view()});
    under_way_.push_back(exchange);
    ++totals_.experts;
    totals_.bytes += expert_bytes(expert);
  }
  spent_seconds_ += seconds_since(begin);
}

void ExpertExchanger::end_step() {
  if (!counts_step_) return;
  set_margin();
  cache_.end_token();
  allowance_.pass(seconds_since(begin_), device_.change_seconds());
}

/// Sets the margin so high that an exchange also repays the time that it takes on this thread. This matters
/// if the CPU reads an expert in a few microseconds.
void ExpertExchanger::set_margin() {
  if (use_seconds_ <= 0 || totals_.experts == 0) return;
  const double each = spent_seconds_ / static_cast<double>(totals_.experts);
  cache_.set_margin(ExpertCache::Rules().margin + kLostShare * each / use_seconds_);
}

/// Completes the first n exchanges under way.
void ExpertExchanger::complete(int n) {
  if (n == 0) return;
  const HostClock::time_point begin = HostClock::now();
  device_.end_changes(n);
  spent_seconds_ += seconds_since(begin);
  const MutexLock lock(mutex_);
  for (; n > 0; --n) {
    const ExpertExchange exchange = under_way_.front();
    under_way_.pop_front();
    layers_[static_cast<size_t>(exchange.layer)].slabs->exchange(exchange.row, exchange.expert);
    cache_.arrived(exchange.layer, exchange.row);
    std::vector<uint64_t>& bits = resident_[static_cast<size_t>(exchange.layer)];
    set_bit(bits, exchange.evicted, false);
    set_bit(bits, exchange.expert, true);
  }
}

bool ExpertExchanger::resident(int layer, std::span<uint64_t> bits) const {
  const auto found = index_.find(layer);
  if (found == index_.end()) return false;
  const MutexLock lock(mutex_);
  std::ranges::copy(resident_[static_cast<size_t>(found->second)], bits.begin());
  return true;
}

std::vector<ExpertExchanger::Layer> exchangeable_layers(const HostExpertsOf& host,
                                                        std::span<ExpertSlabs> slabs,
                                                        const KnownExpertUse& use) {
  std::vector<ExpertExchanger::Layer> layers;
  for (size_t i = 0; i < slabs.size(); ++i) {
    const size_t n_held = slabs[i].experts().size();
    if (n_held == 0) continue;
    const auto layer = static_cast<int>(i);
    const std::span<const Expert> experts = host(layer);
    if (n_held == experts.size()) continue;
    layers.push_back({.layer = layer,
                      .host = experts,
                      .slabs = &slabs[i],
                      .use = use ? use(layer) : std::vector<double>()});
  }
  return layers;
}

}  // namespace hearth
