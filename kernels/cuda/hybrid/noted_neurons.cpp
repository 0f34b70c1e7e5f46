// Implements NotedNeurons.
#include "kernels/cuda/hybrid/noted_neurons.h"

#include <algorithm>
#include <cassert>
#include <limits>

namespace hearth::cuda {

double NotedNeurons::bytes_needed(int n_calls, int max_tokens, int64_t n_neurons) {
  return 4.0 * n_calls * (1.0 + static_cast<double>(n_neurons) * (1.0 + max_tokens));
}

void NotedNeurons::reserve(int n_calls, int max_tokens, int64_t n_neurons, uint32_t* state) {
  *this = {};
  if (bytes_needed(n_calls, max_tokens, n_neurons) > static_cast<double>(std::numeric_limits<size_t>::max()))
    throw std::bad_alloc();
  const auto n = static_cast<size_t>(n_calls), neurons = static_cast<size_t>(n_neurons);
  n_of_device_ = PinnedArray<uint32_t>(n);
  ids_ = PinnedArray<int32_t>(n * neurons);
  values_ = PinnedArray<float>(n * neurons * static_cast<size_t>(max_tokens));
  calls_.reserve(n);
  max_tokens_ = static_cast<size_t>(max_tokens);
  n_neurons_ = neurons;
  state_ = state;
}

void NotedNeurons::begin_step() {
  calls_.clear();
  std::fill_n(n_of_device_.data(), n_of_device_.size(), 0);
}

NeuronNotes NotedNeurons::begin(int n_tokens, int64_t n_neurons) {
  assert(calls_.size() < n_of_device_.size() && static_cast<size_t>(n_tokens) <= max_tokens_ &&
         static_cast<size_t>(n_neurons) <= n_neurons_);
  const size_t call = calls_.size();
  calls_.push_back({n_tokens, n_neurons});
  return {ids(call), values(call), n_of_device_.data() + call, n_neurons, state_};
}

void NotedNeurons::add(const NeuronSet& set, const ActiveNeurons& found) {
  const size_t call = calls_.size() - 1;
  const auto n = static_cast<size_t>(calls_[call].n_neurons);
  size_t place = n;
  for (const int32_t id : set.ids()) {
    const auto j = static_cast<size_t>(id);
    bool active = false;
    for (int t = 0; t < set.n_tokens() && !active; ++t) {
      active = (found.bits[static_cast<size_t>(t) * set.words() + j / 64] >> (j % 64) & 1) != 0;
    }
    if (!active) continue;
    ids(call)[--place] = id;
    for (size_t t = 0; t < static_cast<size_t>(set.n_tokens()); ++t) {
      const bool has = (found.bits[t * set.words() + j / 64] >> (j % 64) & 1) != 0;
      values(call)[t * n + place] = has ? found.values[t * n + j] : 0.0f;
    }
  }
  calls_[call].n_of_cpu = static_cast<int64_t>(n - place);
}

void NotedNeurons::read(int call, const ActiveNeurons& found) const {
  const auto at = static_cast<size_t>(call);
  const Call& noted = calls_[at];
  const auto n = static_cast<size_t>(noted.n_neurons), n_tokens = static_cast<size_t>(noted.n_tokens);
  const size_t words = (n + 63) / 64;
  std::fill_n(found.bits, n_tokens * words, uint64_t{0});
  const auto take = [&](size_t begin, size_t end) {
    for (size_t t = 0; t < n_tokens; ++t) {
      uint64_t* bits = found.bits + t * words;
      for (size_t place = begin; place < end; ++place) {
        const float value = values(at)[t * n + place];
        if (value == 0.0f) continue;
        const auto j = static_cast<size_t>(ids(at)[place]);
        bits[j / 64] |= uint64_t{1} << (j % 64);
        found.values[t * n + j] = value;
      }
    }
  };
  take(0, n_of_device_.data()[at]);
  take(n - static_cast<size_t>(noted.n_of_cpu), n);
}

}  // namespace hearth::cuda
