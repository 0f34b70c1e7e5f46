// See the header.
#include "engine/residency/neuron_cache.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>

namespace hearth {
namespace {

// Upper limit of the visit weight, far below the largest double (2^1024).
constexpr double kLargestWeight = 0x1p500;

bool has(std::span<const uint64_t> bits, int32_t i) {
  return ((bits[static_cast<size_t>(i / 64)] >> (i % 64)) & 1) != 0;
}

template <class F>
void for_each_bit(uint64_t word, size_t index, const F& f) {
  for (; word != 0; word &= word - 1) f(static_cast<int32_t>(index * 64) + std::countr_zero(word));
}

}  // namespace

NeuronCache::NeuronCache(int64_t n_neurons, std::span<const int32_t> hot, int64_t first_row, int64_t end_row,
                         std::span<const int32_t> cached, double half_life)
    : growth_(std::exp2(1 / half_life)),
      first_row_(static_cast<int32_t>(first_row)),
      rows_(static_cast<size_t>(end_row - first_row)),
      n_free_(end_row - first_row - static_cast<int64_t>(cached.size())),
      had_(static_cast<size_t>((n_neurons + 63) / 64)),
      wanted_(static_cast<size_t>(n_neurons)) {
  choice_.reserve(std::max(wanted_.size(), rows_.size()));
  const auto have = [this](int32_t neuron) {
    had_[static_cast<size_t>(neuron / 64)] |= uint64_t{1} << (neuron % 64);
  };
  std::ranges::for_each(hot, have);
  std::ranges::for_each(cached, have);
  for (size_t i = 0; i < cached.size(); ++i) rows_[i] = {State::kResident, cached[i]};
}

void NeuronCache::visit(std::span<const uint64_t> wanted) {
  for (size_t w = 0; w < words(); ++w) {
    for_each_bit(wanted[w], w, [&](int32_t neuron) { wanted_[static_cast<size_t>(neuron)] += weight_; });
  }
  weight_ *= growth_;
  if (weight_ > kLargestWeight) fade();
}

/// Divides all sums by the current visit weight and sets that weight to 1. Ratios stay the same, and numbers
/// stay small.
void NeuronCache::fade() {
  for (double& sum : wanted_) sum /= weight_;
  weight_ = 1;
}

int64_t NeuronCache::missing(std::span<const uint64_t> predicted) const {
  int64_t n = 0;
  for (size_t w = 0; w < words(); ++w) n += std::popcount(predicted[w] & ~had_[w]);
  return n;
}

bool NeuronCache::wanted_more(int32_t a, int32_t b) const {
  const double by_a = wanted_[static_cast<size_t>(a)], by_b = wanted_[static_cast<size_t>(b)];
  return by_a != by_b ? by_a > by_b : a < b;
}

void NeuronCache::bring(std::span<const uint64_t> predicted, int64_t n, std::vector<RowChange>& out) {
  out.clear();
  n = std::min(n, n_free_);
  if (n <= 0) return;
  choice_.clear();
  for (size_t w = 0; w < words(); ++w) {
    for_each_bit(predicted[w] & ~had_[w], w, [&](int32_t neuron) { choice_.push_back(neuron); });
  }
  if (static_cast<int64_t>(choice_.size()) > n) {
    std::nth_element(choice_.begin(), choice_.begin() + n, choice_.end(),
                     [&](int32_t a, int32_t b) { return wanted_more(a, b); });
    choice_.resize(static_cast<size_t>(n));
    std::ranges::sort(choice_);
  }
  size_t device_row = 0;
  for (const int32_t neuron : choice_) {
    while (rows_[device_row].state != State::kFree) ++device_row;
    rows_[device_row] = {State::kArriving, neuron};
    had_[static_cast<size_t>(neuron / 64)] |= uint64_t{1} << (neuron % 64);
    out.push_back({neuron, first_row_ + static_cast<int32_t>(device_row)});
  }
  n_free_ -= static_cast<int64_t>(out.size());
}

void NeuronCache::arrived(int32_t device_row) {
  assert(row_at(device_row).state == State::kArriving);
  row_at(device_row).state = State::kResident;
}

void NeuronCache::let_go(std::span<const uint64_t> predicted, int64_t n, std::vector<RowChange>& out) {
  out.clear();
  n -= n_free_ + n_emptied_;
  if (n <= 0) return;
  choice_.clear();
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (rows_[i].state == State::kResident && !has(predicted, rows_[i].neuron))
      choice_.push_back(static_cast<int32_t>(i));
  }
  const auto wanted_less = [&](int32_t a, int32_t b) {
    const int32_t in_a = rows_[static_cast<size_t>(a)].neuron, in_b = rows_[static_cast<size_t>(b)].neuron;
    const double by_a = wanted_[static_cast<size_t>(in_a)], by_b = wanted_[static_cast<size_t>(in_b)];
    return by_a != by_b ? by_a < by_b : in_a < in_b;
  };
  n = std::min(n, static_cast<int64_t>(choice_.size()));
  std::partial_sort(choice_.begin(), choice_.begin() + n, choice_.end(), wanted_less);
  for (const int32_t place : std::span(choice_).first(static_cast<size_t>(n))) {
    Row& device_row = rows_[static_cast<size_t>(place)];
    device_row.state = State::kEmptied;
    out.push_back({device_row.neuron, first_row_ + place});
  }
  n_emptied_ += n;
}

void NeuronCache::freed(int32_t device_row) {
  Row& it = row_at(device_row);
  assert(it.state == State::kEmptied);
  had_[static_cast<size_t>(it.neuron / 64)] &= ~(uint64_t{1} << (it.neuron % 64));
  it = {};
  ++n_free_;
  --n_emptied_;
}

}  // namespace hearth
