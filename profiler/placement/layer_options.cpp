// See the header.
#include "profiler/placement/layer_options.h"

#include <algorithm>
#include <cmath>

namespace hearth {

TokenWork& TokenWork::operator+=(const TokenWork& other) {
  bytes.device_whole += other.bytes.device_whole;
  bytes.device_neurons += other.bytes.device_neurons;
  bytes.cold_neurons += other.bytes.cold_neurons;
  bytes.host_whole += other.bytes.host_whole;
  brought_bytes += other.brought_bytes;
  device_whole += other.device_whole;
  device_neurons += other.device_neurons;
  cold_neurons += other.cold_neurons;
  host_layers += other.host_layers;
  kernels += other.kernels;
  hand_overs += other.hand_overs;
  return *this;
}

LayerOptions::LayerOptions(const ModelFacts& facts, int layer, const CostModel& cost, bool cache)
    : facts_(facts),
      layer_(facts.layers[static_cast<size_t>(layer)]),
      curve_(facts.activity->of(layer)),
      cost_(cost),
      cache_(cache && facts.mode != Sparsity::kDense && cost.has_gpu()),
      useful_(facts.mode == Sparsity::kPredicted ? facts.assumptions.useful_predicted
                                                 : facts.assumptions.useful_repeated),
      alone_(cost.cold_rows()),
      brought_(cost.cold_rows_brought(useful_)) {}

double LayerOptions::proposed(int64_t n) const {
  return std::min(static_cast<double>(n), facts_.assumptions.proposed_per_active * curve_.active(n));
}

TokenWork LayerOptions::host_work() const {
  const auto all = static_cast<double>(facts_.d_ff);
  const double active = curve_.active();
  double whole = layer_.attention_read + layer_.predictor_read, rows = 0;
  switch (facts_.mode) {
    case Sparsity::kPredicted:
      rows = proposed(facts_.d_ff) * layer_.gate + active * (layer_.up + layer_.down) + layer_.scales_read;
      break;
    case Sparsity::kExact:
      whole += all * layer_.gate;
      rows = active * (layer_.up + layer_.down) + layer_.scales_read;
      break;
    default:
      whole += all * (layer_.gate + layer_.up + layer_.down) + layer_.scales_read;
  }
  TokenWork work;
  work.bytes.host_whole = whole + rows;
  work.host_layers = cost_.cpu_read(whole) + cost_.cpu_rows(rows);
  return work;
}

TokenWork LayerOptions::device_work(const LayerOption& option) const {
  const int64_t d_ff = facts_.d_ff, r = option.n_there();
  const double active = curve_.active(r), cold = curve_.active() - active;
  const double up_down = layer_.up + layer_.down;
  double whole = layer_.attention_read + layer_.predictor_read;
  double own = 0, in_order = 0, rows = 0;  // the device's neurons; the host's: one behind the other, and rows
  switch (facts_.mode) {
    case Sparsity::kPredicted:
      own = proposed(r) * layer_.gate + active * up_down;
      rows = (proposed(d_ff) - proposed(r)) * layer_.gate + cold * up_down;
      break;
    case Sparsity::kExact:
      if (option.all_gates) {
        whole += static_cast<double>(d_ff) * layer_.gate;
      } else {
        own = static_cast<double>(r) * layer_.gate;
        in_order = static_cast<double>(d_ff - r) * layer_.gate;
      }
      own += active * up_down;
      rows = cold * up_down;
      break;
    default:
      own = static_cast<double>(r) * (layer_.gate + up_down);
      in_order = static_cast<double>(d_ff - r) * (layer_.gate + up_down);
  }
  // A group's scales are read by whoever has active neurons of it: where few are, both.
  const bool dense = facts_.mode == Sparsity::kDense;
  const double own_scales = dense ? static_cast<double>(r) / static_cast<double>(d_ff) : r > 0 ? 1 : 0;
  const double host_scales = dense ? 1 - own_scales : r < d_ff ? 1 : 0;
  own += own_scales * layer_.scales_read;
  in_order += host_scales * layer_.scales_read;

  TokenWork work;
  const ColdRead& how = option.n_cache > 0 ? brought_ : alone_;
  work.bytes.device_whole = whole;
  work.bytes.device_neurons = own;
  work.bytes.cold_neurons = in_order + rows;
  work.brought_bytes = rows * how.brought_share / useful_;
  work.device_whole = cost_.gpu_read(whole);
  work.kernels = cost_.kernels(layer_kernels(facts_.mode, r < d_ff));
  const double device_s = cost_.gpu_read(own);
  const double host_s = cost_.cpu_read(in_order) + rows * how.seconds_per_byte;
  (host_s > device_s ? work.cold_neurons : work.device_neurons) = std::max(host_s, device_s);
  if (r < d_ff) {
    // Out: the layer's input and who is wanted of the cold ones; back: sums of 64 bits.
    work.hand_overs =
        cost_.round_trip(4.0 * facts_.d_model + static_cast<double>(d_ff) / 8, 8.0 * facts_.d_model);
  }
  return work;
}

TokenWork LayerOptions::work(const LayerOption& option) const {
  return option.on_device ? device_work(option) : host_work();
}

int64_t LayerOptions::vram(const LayerOption& option) const {
  if (!option.on_device) return 0;
  const double row = (option.all_gates ? 0 : layer_.gate) + layer_.up + layer_.down;
  return layer_.vram_shared + (option.all_gates ? layer_.vram_gates : 0) +
         (option.n_hot + option.n_cache) * static_cast<int64_t>(row);
}

int64_t LayerOptions::ram(const LayerOption& option) const {
  if (!option.on_device) return layer_.ram_whole;
  const int64_t kept = facts_.d_ff - (layer_.gives_back ? option.n_hot : 0);
  return layer_.ram_shared + kept * layer_.ram_neuron;
}

double LayerOptions::caught(const LayerOption& option) const {
  return option.on_device ? curve_.caught(option.n_there()) : 0;
}

void LayerOptions::add(const LayerOption& option, std::vector<LayerOption>& options,
                       std::vector<Choice>& choices) const {
  options.push_back(option);
  choices.push_back({.vram = vram(option),
                     .ram = ram(option),
                     .seconds = work(option).seconds(),
                     .on_device = option.on_device});
}

void LayerOptions::list(std::vector<LayerOption>& options, std::vector<Choice>& choices) const {
  add({.on_device = false}, options, choices);
  if (!cost_.has_gpu()) return;
  const int64_t d_ff = facts_.d_ff;
  for (const bool gates : {false, true}) {
    if (gates && facts_.mode != Sparsity::kExact) break;
    for (int64_t n = 0;; n = std::min(d_ff, n + kGroup)) {
      if (gates && n == d_ff) break;  // all neurons have their gates with them
      add({.on_device = true, .all_gates = gates, .n_hot = n}, options, choices);
      if (n == d_ff) break;
      if (!cache_ || brought_.brought_share <= 0) continue;
      // Places for what is brought for a token, a quarter of them; the others have their share of the prefix.
      const double wanted = facts_.mode == Sparsity::kPredicted ? proposed(d_ff) - proposed(n)
                                                                : curve_.active() - curve_.active(n);
      const auto n_cache = static_cast<int64_t>(std::ceil(4 * wanted * brought_.brought_share / useful_));
      const int64_t n_hot = n - n_cache * 3 / 4;
      if (n_cache == 0 || n_hot < 0 || n_hot + n_cache > d_ff) continue;
      add({.on_device = true, .all_gates = gates, .n_hot = n_hot, .n_cache = n_cache}, options, choices);
    }
  }
}

}  // namespace hearth
