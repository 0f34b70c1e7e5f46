// Many tokens: rows of the down projection are dequantised once for all of them. See sparse_ffn.h.
#include <algorithm>
#include <bit>

#include "kernels/cpu/sparse_ffn.h"

namespace hearth {

namespace {

/// Asks for a neuron's weights of some columns: pieces of rows far apart, which the hardware does not
/// foresee.
void prefetch_columns(const DownColumns& down, int64_t neuron, int64_t column, int64_t n_columns) {
  const std::byte* begin = down.coded.codes + static_cast<size_t>(neuron) * down.coded.stride +
                           static_cast<size_t>(column * down.coded.bits / 8);
  const std::byte* end = begin + n_columns * down.coded.bits / 8;
  if (down.rows) {
    const DTypeInfo& type = dtype_info(down.rows.dtype);
    begin = down.rows.row(neuron) + column / type.block_elems * type.block_bytes;
    end = begin + n_columns / type.block_elems * type.block_bytes;
  }
  for (; begin < end; begin += 64) __builtin_prefetch(begin);
}

}  // namespace

const NeuronSet& SparseFfn::pass_gates(const FfnNeurons& ffn, const float* gates, int n_tokens,
                                       const NeuronSet& set, NeuronCounts& counts) {
  const int64_t n_neurons = set.n_neurons();
  passed_.clear(n_tokens, n_neurons);
  pool_.for_each_chunk(n_tokens, 1, [&](int64_t t, int64_t, int) {
    float* act = values() + t * n_neurons;
    vector_.gated_activation(ffn.activation, gates + t * n_neurons, ones_.data(), n_neurons, act);
    const uint64_t* wanted = set.wanted(static_cast<int>(t));
    uint64_t* passed = passed_.wanted(static_cast<int>(t));
    int64_t n = 0;
    for (size_t w = 0; w < set.words(); ++w) {
      for (uint64_t left = wanted[w]; left != 0; left &= left - 1) {
        const int i = std::countr_zero(left);
        passed[w] |= uint64_t{act[w * 64 + static_cast<size_t>(i)] != 0.0f} << i;
      }
      n += std::popcount(passed[w]);
    }
    counted_[static_cast<size_t>(t)] = n;
  });
  for (int t = 0; t < n_tokens; ++t) counts.passed += counted_[static_cast<size_t>(t)];
  passed_.collect();
  return passed_;
}

/// Fills active_, starts_, products_, ranges_of_ and any_, and counts.
void SparseFfn::find_active(const ManyStep& step, NeuronCounts& counts) {
  const int64_t n_neurons = step.set->n_neurons();
  const size_t n_words = step.set->words(), n_tokens = static_cast<size_t>(step.n_tokens);
  const size_t words_of_range = static_cast<size_t>(neuron_range(n_neurons) / 64);
  pool_.for_each_chunk(step.n_tokens, 1, [&](int64_t t, int64_t, int) {
    const float* values = step.values + t * n_neurons;
    const uint64_t* wanted = step.set->wanted(static_cast<int>(t));
    int64_t n = 0;
    uint32_t ranges = 0;
    for (size_t w = 0; w < n_words; ++w) {
      uint64_t active = 0;
      for (uint64_t left = wanted[w]; left != 0; left &= left - 1) {
        const int i = std::countr_zero(left);
        active |= uint64_t{values[w * 64 + static_cast<size_t>(i)] != 0.0f} << i;
      }
      active_[w * n_tokens + static_cast<size_t>(t)] = active;
      if (counts.found != nullptr) counts.found->bits[static_cast<size_t>(t) * n_words + w] = active;
      n += std::popcount(active);
      ranges |= uint32_t{active != 0} << (w / words_of_range);
    }
    counted_[static_cast<size_t>(t)] = n;
    ranges_of_[static_cast<size_t>(t)] = ranges;
  });
  for (size_t t = 0; t < n_tokens; ++t) counts.active += counted_[t];
  size_t start = 0;
  for (size_t w = 0; w < n_words; ++w) {
    uint64_t any = 0;
    for (size_t t = 0; t < n_tokens; ++t) {
      const uint64_t active = active_[w * n_tokens + t];
      starts_[w * n_tokens + t] = start;
      start += static_cast<size_t>(std::popcount(active));
      any |= active;
    }
    any_[w] = any;
    counts.down_rows += std::popcount(any);
  }
  pool_.for_each_chunk(static_cast<int64_t>(n_words), 1, [&](int64_t word, int64_t, int) {
    const size_t w = static_cast<size_t>(word);
    float* to = products() + starts_[w * n_tokens];
    for (size_t t = 0; t < n_tokens; ++t) {
      const float* values = step.values + static_cast<int64_t>(t) * n_neurons + word * 64;
      for (uint64_t left = active_[w * n_tokens + t]; left != 0; left &= left - 1) {
        const int i = std::countr_zero(left);
        *to++ = values[i];
        if (counts.found == nullptr) continue;
        counts.found->values[static_cast<int64_t>(t) * n_neurons + word * 64 + i] = values[i];
      }
    }
  });
}

void SparseFfn::down_many(const DownColumns& down, const float* values, int n_tokens, const NeuronSet& set,
                          float* out, NeuronCounts& counts) {
  run_many({&down, values, n_tokens, &set, out, nullptr}, counts);
}

void SparseFfn::run_many(const ManyStep& step, NeuronCounts& counts) {
  const DownColumns& down = *step.down;
  const int n_tokens = step.n_tokens;
  find_active(step, counts);
  // A strip of columns is a panel wide, or one block of the types that have blocks of two panels' width.
  const bool wide = down.rows && dtype_info(down.rows.dtype).block_elems > kPanelWidth;
  const int64_t width = wide ? 2 * kPanelWidth : kPanelWidth;
  const int64_t n_strips = (down.n_cols + width - 1) / width;
  // Few columns on many threads: tokens are shared out too, though each share dequantises for itself.
  constexpr int64_t kPiecesPerThread = 4, kTokensOfPiece = 64;
  const int64_t wanted = (pool_.n_threads() * kPiecesPerThread + n_strips - 1) / n_strips;
  const int64_t most_parts = std::clamp<int64_t>(n_tokens / kTokensOfPiece, 1, wanted);
  const int64_t tokens_of_part = (n_tokens + most_parts - 1) / most_parts;
  const int64_t parts = (n_tokens + tokens_of_part - 1) / tokens_of_part;  // none is empty
  pool_.for_each_chunk(n_strips * parts, 1, [&](int64_t piece, int64_t, int worker) {
    const int64_t column = piece / parts * width;
    const int first = static_cast<int>(piece % parts * tokens_of_part);
    const int n = static_cast<int>(std::min<int64_t>(tokens_of_part, n_tokens - first));
    const int64_t n_columns = std::min(width, down.n_cols - column);
    if (step.sums != nullptr) {
      sum_columns(step, column, n_columns, first, n, worker);
    } else {
      add_columns(step, column, n_columns, first, n, worker);
    }
  });
}

void SparseFfn::add_columns(const ManyStep& step, int64_t column, int64_t n_columns, int first_token,
                            int n_tokens, int worker) {
  const size_t words_of_range = static_cast<size_t>(neuron_range(step.set->n_neurons()) / 64);
  const size_t n_words = step.set->words();
  float* sums = sums_[static_cast<size_t>(worker)].floats();
  const int64_t half = int64_t{max_tokens_} * kPanelWidth;
  const int n_halves = n_columns > kPanelWidth ? 2 : 1;
  for (int h = 0; h < n_halves; ++h) std::fill_n(sums + h * half, int64_t{n_tokens} * kPanelWidth, 0.0f);
  for (size_t word = 0; word < n_words; ++word) {
    if (any_[word] != 0) add_word(step, word, column, n_columns, first_token, n_tokens, worker);
    const bool range_ends = (word + 1) % words_of_range == 0 || word + 1 == n_words;
    if (!range_ends) continue;
    const size_t range = word / words_of_range;
    for (int t = 0; t < n_tokens; ++t) {
      if (((ranges_of_[static_cast<size_t>(first_token + t)] >> range) & 1) == 0) continue;
      for (int h = 0; h < n_halves; ++h) {
        float* sum = sums + h * half + int64_t{t} * kPanelWidth;
        const int64_t n = std::min<int64_t>(kPanelWidth, n_columns - h * kPanelWidth);
        kernels_.add(sum, n, step.out + (first_token + t) * step.down->n_cols + column + h * kPanelWidth);
        std::fill_n(sum, kPanelWidth, 0.0f);
      }
    }
  }
  if (step.down->bias == nullptr) return;
  for (int t = first_token; t < first_token + n_tokens; ++t) {
    kernels_.add(step.down->bias + column, n_columns, step.out + t * step.down->n_cols + column);
  }
}

/// Weights of the neurons of one word of the set, or their codes where floats are summed.
void SparseFfn::fill_panel(const ManyStep& step, size_t word, int64_t column, int64_t n_columns, int worker) {
  const DownColumns& down = *step.down;
  float* panel = panels_[static_cast<size_t>(worker)].data();
  const int64_t first = static_cast<int64_t>(word) * 64;
  for (uint64_t left = any_[word]; left != 0; left &= left - 1) {
    const int i = std::countr_zero(left);
    if (first + i + 64 < down.n_neurons) prefetch_columns(down, first + i + 64, column, n_columns);
    float* row = panel + int64_t{i} * kPanelWidth;
    if (!down.rows) {
      const auto decode = step.sums == nullptr ? kernels_.decode : sums_kernels_.dequantize_coded;
      decode(down.coded, first + i, column, n_columns, row);
    } else if (n_columns <= kPanelWidth) {
      kernels_.dequantize[static_cast<size_t>(down.rows.dtype)](down.rows, first + i, column, n_columns, row);
    } else {
      std::array<float, 2 * kPanelWidth> wide;
      kernels_.dequantize[static_cast<size_t>(down.rows.dtype)](down.rows, first + i, column, n_columns,
                                                                wide.data());
      std::copy_n(wide.data(), kPanelWidth, row);
      std::copy_n(wide.data() + kPanelWidth, n_columns - kPanelWidth, row + kPanelFloats);
    }
  }
}

/// The 64 neurons of one word of the set.
void SparseFfn::add_word(const ManyStep& step, size_t word, int64_t column, int64_t n_columns,
                         int first_token, int n_tokens, int worker) {
  const DownColumns& down = *step.down;
  float* panel = panels_[static_cast<size_t>(worker)].data();
  const int64_t first = static_cast<int64_t>(word) * 64;
  fill_panel(step, word, column, n_columns, worker);
  DownPanelArgs args;
  const size_t place = word * static_cast<size_t>(step.n_tokens) + static_cast<size_t>(first_token);
  args.wanted = active_.data() + place;
  args.values = products() + starts_[place];
  args.n_tokens = n_tokens;
  float* sums = sums_[static_cast<size_t>(worker)].floats();
  for (int h = 0; h * kPanelWidth < n_columns; ++h) {
    args.weights = panel + h * kPanelFloats;
    args.sums = sums + h * int64_t{max_tokens_} * kPanelWidth;
    if (down.rows) {
      kernels_.add_panel(args);
      continue;
    }
    float* scales = panel + 2 * kPanelFloats;
    float* mins = scales + kPanelWidth;
    for (int begin = 0; begin < 64 && first + begin < down.n_neurons; begin += down.coded.group) {
      const int64_t group = (first + begin) / down.coded.group;
      kernels_.factors(down.coded, down.coded.scales, group, column, n_columns, scales);
      args.scales = scales;
      if (down.coded.mins != nullptr) {
        kernels_.factors(down.coded, down.coded.mins, group, column, n_columns, mins);
        args.mins = mins;
      }
      args.group_begin = begin;
      args.group_end = begin + down.coded.group;
      kernels_.add_panel(args);
    }
  }
}

}  // namespace hearth
