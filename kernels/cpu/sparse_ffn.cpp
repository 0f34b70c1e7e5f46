// Implements SparseFfn: the two ways to compute a layer's neurons, each with float and integer sums.
#include "kernels/cpu/sparse_ffn.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>

namespace hearth {
namespace {

/// Prefetches some columns of a neuron's weights, because the hardware prefetcher does not predict accesses
/// to parts of rows that are far apart.
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

void SparseFfn::reserve(int max_tokens, int64_t max_cols, Backend& memory) {
  max_tokens_ = max_tokens;
  max_cols_ = max_cols;
  const size_t row = static_cast<size_t>(max_cols), tokens = static_cast<size_t>(max_tokens);
  const size_t few = static_cast<size_t>(std::min(max_tokens, kMaxFewTokens));
  ones_.assign(row, 1.0f);
  few_floats_ = memory.allocate((3 + kNeuronRanges) * few * row * sizeof(float));
  few_gates_ = few_floats_.floats();
  few_ups_ = few_gates_ + few * row;
  list_values_ = few_ups_ + few * row;
  partials_ = list_values_ + few * row;
  thread_sums_ = memory.allocate(static_cast<size_t>(pool_.n_threads() - 1) * few * row * sizeof(int64_t));
  sum_parts_ = memory.allocate(3 * static_cast<size_t>(pool_.n_threads()) * row * sizeof(float));
  summed_.resize(static_cast<size_t>(pool_.n_threads()));
  const int64_t most_pieces = n_sum_pieces(max_cols, pool_.n_threads(), pool_.speeds_differ());
  ranges_.resize(static_cast<size_t>(std::max<int64_t>(kNeuronRanges, most_pieces)));
  few_ids_.resize((1 + few) * row);
  passed_ids_ = few_ids_.data();
  list_ids_ = passed_ids_ + row;
  gates_ = memory.allocate(tokens * row * sizeof(float));
  values_ = memory.allocate(tokens * row * sizeof(float));
  products_ = memory.allocate(tokens * row * sizeof(float));
  passed_.reserve(max_tokens, max_cols);
  active_.resize((row / 64 + 1) * tokens);
  starts_.resize(active_.size());
  ranges_of_.resize(tokens);
  counted_.resize(tokens);
  any_.resize(row / 64 + 1);
  panels_.resize(static_cast<size_t>(pool_.n_threads()));
  sums_.resize(panels_.size());
  for (std::vector<float>& panel : panels_) panel.resize(size_t{2} * (kPanelNeurons + 2) * kPanelWidth);
  term_panels_.resize(panels_.size());
  for (Buffer& sums : sums_) sums = memory.allocate(2 * tokens * kPanelWidth * sizeof(float));
}

void SparseFfn::select(const float* values, const float* sizes, int n_tokens, int64_t n_neurons,
                       float at_least, NeuronSet& set) {
  set.clear(n_tokens, n_neurons);
  // Words per piece: 8192 scores are 32 KB, and scanning them takes a few microseconds.
  constexpr int64_t kWords = 128;
  const int64_t n_words = static_cast<int64_t>(set.words());
  const int64_t parts = (n_words + kWords - 1) / kWords;
  pool_.for_each_piece(n_tokens * parts, 1, [&](int64_t piece, int64_t, int) {
    const int t = static_cast<int>(piece / parts);
    const int64_t word = piece % parts * kWords;
    const int64_t n = std::min((word + kWords) * 64, n_neurons) - word * 64;
    kernels_.select(values + t * n_neurons + word * 64, sizes == nullptr ? nullptr : sizes + word * 64, n,
                    at_least, set.wanted(t) + word);
  });
  set.collect();
}

// ---- few tokens: a thread computes the gate, up and down rows of a range of neurons ----------------------

void SparseFfn::ffn_few(const FfnNeurons& ffn, const float* x, const std::byte* quantized, int n_tokens,
                        const NeuronSet& set, const float* gates, float* out, NeuronCounts& counts) {
  const Call call{&ffn, &ffn.down, x, quantized, n_tokens, &set, gates, counts.found};
  run_ranges(call, kNeuronRanges, counts);
  add_partials(call, out);
}

void SparseFfn::down_few(const DownColumns& down, const float* values, int n_tokens, const NeuronSet& set,
                         float* out, NeuronCounts& counts) {
  const Call call{nullptr, &down, nullptr, nullptr, n_tokens, &set, values, counts.found};
  run_ranges(call, kNeuronRanges, counts);
  add_partials(call, out);
}

void SparseFfn::run_ranges(const Call& call, int64_t n_ranges, NeuronCounts& counts) {
  assert(call.n_tokens <= std::min(max_tokens_, kMaxFewTokens));
  if (call.found != nullptr) {
    std::fill_n(call.found->bits, static_cast<size_t>(call.n_tokens) * call.set->words(), uint64_t{0});
  }
  pool_.for_each_piece(n_ranges, 1, [&](int64_t range, int64_t, int thread) {
    run_range(call, call.sums == nullptr ? range_of(call, range) : piece_of(call, range, n_ranges), range,
              thread);
  });
  for (int64_t i = 0; i < n_ranges; ++i) {
    const RangeCounts& range = ranges_[static_cast<size_t>(i)].counts;
    counts.gate_rows += range.gate_rows;
    counts.up_rows += range.up_rows;
    counts.down_rows += range.down_rows;
    counts.passed += range.passed;
    counts.active += range.active;
  }
}

/// Returns the list indices of the neurons in one of the kNeuronRanges ranges.
SparseFfn::Places SparseFfn::range_of(const Call& call, int64_t range) const {
  const std::span<const int32_t> ids = call.set->ids();
  const int64_t size = neuron_range(call.set->n_neurons());
  const auto place_of = [&](int64_t neuron) {
    return std::lower_bound(ids.begin(), ids.end(), static_cast<int32_t>(neuron)) - ids.begin();
  };
  return {ids.data(), place_of(range * size), place_of((range + 1) * size)};
}

/// Returns the piece with index `piece` of the list, which is cut into n_pieces pieces of about equal length.
/// Neurons of one word of bits stay in one piece, because threads write whole words.
SparseFfn::Places SparseFfn::piece_of(const Call& call, int64_t piece, int64_t n_pieces) const {
  const std::span<const int32_t> ids = call.set->ids();
  const auto n = static_cast<int64_t>(ids.size());
  const auto boundary = [&](int64_t i) {
    int64_t place = n * i / n_pieces;
    while (place > 0 && place < n &&
           ids[static_cast<size_t>(place)] / 64 == ids[static_cast<size_t>(place - 1)] / 64)
      ++place;
    return place;
  };
  return {ids.data(), boundary(piece), boundary(piece + 1)};
}

void SparseFfn::run_range(const Call& call, Places places, int64_t index, int thread) {
  Range& range = ranges_[static_cast<size_t>(index)];
  range = {};
  if (places.n() == 0) return;
  places = values_of_range(call, places, range.counts);
  list_active(call, places, range.n_listed.data(), range.counts);
  if (call.found != nullptr) note_active(call, places.begin, range.n_listed.data());
  if (call.sums != nullptr) {
    sum_range(call, index, places.begin, thread);
  } else {
    add_range(call, index, places.begin);
  }
}

/// Adds a range's active neurons, listed from index `begin` on, to the range's partial sums.
void SparseFfn::add_range(const Call& call, int64_t range, int64_t begin) {
  for (int t = 0; t < call.n_tokens; ++t) {
    const int n = ranges_[static_cast<size_t>(range)].n_listed[static_cast<size_t>(t)];
    if (n == 0) continue;
    const DownArgs args{.down = call.down,
                        .ids = list_ids_ + t * max_cols_ + begin,
                        .values = list_values_ + t * max_cols_ + begin,
                        .n = n,
                        .fresh = true,
                        .column_begin = 0,
                        .column_end = call.down->n_cols,
                        .sum = partials_ + (range * call.n_tokens + t) * max_cols_};
    if (call.down->rows) {
      kernels_.add_rows[static_cast<size_t>(call.down->rows.dtype)](args);
    } else {
      kernels_.add_coded(args);
    }
  }
}

/// Writes the values of a range's neurons to few_ups_, by list index. Returns the range of list indices that
/// have values.
SparseFfn::Places SparseFfn::values_of_range(const Call& call, Places places, RangeCounts& counts) {
  const int64_t begin = places.begin;
  float* from_gates = call.ffn == nullptr ? few_ups_ : few_gates_;
  if (call.given != nullptr) {
    for (int t = 0; t < call.n_tokens; ++t) {
      const float* given = call.given + t * call.set->n_neurons();
      float* to = from_gates + t * max_cols_;
      for (int64_t i = begin; i < places.end; ++i) to[i] = given[places.ids[i]];
    }
  } else {
    multiply(call, call.ffn->gate, call.ffn->gate_bias, places, few_gates_);
    counts.gate_rows = places.n();
  }
  if (call.ffn == nullptr) return places;
  for (int t = 0; t < call.n_tokens; ++t) {
    const int64_t at = t * max_cols_ + begin;
    vector_.gated_activation(call.ffn->activation, few_gates_ + at, ones_.data(), places.n(), few_ups_ + at);
  }
  places = keep_passed(call, places, counts);
  if (!call.ffn->up || places.n() == 0) return places;
  multiply(call, call.ffn->up, call.ffn->up_bias, places, few_ups_);
  counts.up_rows = places.n();
  for (int t = 0; t < call.n_tokens; ++t) {
    const int64_t at = t * max_cols_ + begin;
    vector_.gated_activation(call.ffn->activation, few_gates_ + at, few_ups_ + at, places.n(), few_ups_ + at);
  }
  return places;
}

/// Multiplies the rows of the neurons at list indices `places` by all tokens, and writes the products by list
/// index.
void SparseFfn::multiply(const Call& call, const Matrix& weight, const float* bias, Places places,
                         float* to) {
  const MatmulArgs args{.weight = &weight,
                        .rows = places.ids,
                        .row_begin = places.begin,
                        .row_end = places.end,
                        .x = call.x,
                        .quantized = call.quantized,
                        .n_tokens = call.n_tokens,
                        .bias = bias,
                        .out = to,
                        .out_stride = max_cols_};
  matmul_.multiply[static_cast<size_t>(weight.dtype)](args);
}

/// Drops neurons whose act(gate), in few_ups_, is zero for every token that needs them. Moves the gates and
/// activations of the remaining neurons to the front.
SparseFfn::Places SparseFfn::keep_passed(const Call& call, Places places, RangeCounts& counts) {
  int64_t n = places.begin;
  for (int64_t i = places.begin; i < places.end; ++i) {
    const int32_t id = places.ids[i];
    int n_passed = 0;
    for (int t = 0; t < call.n_tokens; ++t) {
      float* gates = few_gates_ + t * max_cols_;
      float* ups = few_ups_ + t * max_cols_;
      n_passed += call.set->wants(t, id) && ups[i] != 0.0f ? 1 : 0;
      gates[n] = gates[i];
      ups[n] = ups[i];
    }
    counts.passed += n_passed;
    passed_ids_[n] = id;
    n += n_passed > 0 ? 1 : 0;
  }
  return {passed_ids_, places.begin, n};
}

/// Lists each token's active neurons and their values.
void SparseFfn::list_active(const Call& call, Places places, int* n_listed, RangeCounts& counts) {
  for (int64_t i = places.begin; i < places.end; ++i) {
    const int32_t id = places.ids[i];
    int n_active = 0;
    for (int t = 0; t < call.n_tokens; ++t) {
      const float value = few_ups_[t * max_cols_ + i];
      const int64_t at = t * max_cols_ + places.begin + n_listed[t];
      list_ids_[at] = id;
      list_values_[at] = value;
      const int active = call.set->wants(t, id) && value != 0.0f ? 1 : 0;
      n_listed[t] += active;
      n_active += active;
    }
    counts.active += n_active;
    counts.down_rows += n_active > 0 ? 1 : 0;
  }
}

/// Writes a range's active neurons, listed from index `begin` on, to call.found. A range has whole words of
/// bits, so threads do not write to the same word.
void SparseFfn::note_active(const Call& call, int64_t begin, const int* n_listed) {
  const int64_t n_neurons = call.set->n_neurons();
  for (int t = 0; t < call.n_tokens; ++t) {
    uint64_t* bits = call.found->bits + static_cast<size_t>(t) * call.set->words();
    float* values = call.found->values + t * n_neurons;
    const int64_t at = t * max_cols_ + begin;
    for (int i = 0; i < n_listed[t]; ++i) {
      const int32_t id = list_ids_[at + i];
      bits[id / 64] |= uint64_t{1} << (id % 64);
      values[id] = list_values_[at + i];
    }
  }
}

void SparseFfn::add_partials(const Call& call, float* out) {
  // Columns per piece. The partial sums of a piece are 64 KB that other cores wrote; reading them takes a few
  // microseconds.
  constexpr int64_t kColumns = 1024;
  const int64_t n_cols = call.down->n_cols;
  const int64_t parts = (n_cols + kColumns - 1) / kColumns;
  pool_.for_each_piece(call.n_tokens * parts, 1, [&](int64_t piece, int64_t, int) {
    const int t = static_cast<int>(piece / parts);
    const int64_t column = piece % parts * kColumns, n = std::min(kColumns, n_cols - column);
    float* to = out + t * n_cols + column;
    for (int64_t range = 0; range < kNeuronRanges; ++range) {
      if (ranges_[static_cast<size_t>(range)].n_listed[static_cast<size_t>(t)] == 0) continue;
      kernels_.add(partials_ + (range * call.n_tokens + t) * max_cols_ + column, n, to);
    }
    if (call.down->bias != nullptr) kernels_.add(call.down->bias + column, n, to);
  });
}

// ---- few tokens, integer sums ----------------------------------------------------------------------------
//
// A thread adds all of its pieces to one array. For thread 0, this is the caller's array.

void SparseFfn::ffn_few_sums(const FfnNeurons& ffn, const float* x, const std::byte* quantized, int n_tokens,
                             const NeuronSet& set, const float* gates, const NeuronSums& sums,
                             NeuronCounts& counts) {
  run_few_sums({&ffn, &ffn.down, x, quantized, n_tokens, &set, gates, counts.found, &sums}, counts);
}

void SparseFfn::down_few_sums(const DownColumns& down, const float* values, int n_tokens,
                              const NeuronSet& set, const NeuronSums& sums, NeuronCounts& counts) {
  run_few_sums({nullptr, &down, nullptr, nullptr, n_tokens, &set, values, counts.found, &sums}, counts);
}

void SparseFfn::run_few_sums(const Call& call, NeuronCounts& counts) {
  std::ranges::fill(summed_, uint8_t{0});
  const int64_t n_ranges =
      n_sum_pieces(static_cast<int64_t>(call.set->ids().size()), pool_.n_threads(), pool_.speeds_differ());
  run_ranges(call, n_ranges, counts);
  uint32_t poison = 0;
  for (int64_t i = 0; i < n_ranges; ++i) poison |= ranges_[static_cast<size_t>(i)].poison;
  for (int t = 0; t < call.n_tokens; ++t) {
    if ((poison >> t & 1) != 0) call.sums->poison[t] = 1;
  }
  // Add the sums of threads 1 and up to the caller's sums. Pieces have as many columns as in add_partials().
  constexpr int64_t kColumns = 1024;
  const int64_t n = call.n_tokens * call.down->n_cols;
  const size_t n_threads = summed_.size();
  if (std::find(summed_.begin() + 1, summed_.end(), 1) == summed_.end()) return;
  pool_.for_each_piece(n, kColumns, [&](int64_t begin, int64_t end, int) {
    for (size_t thread = 1; thread < n_threads; ++thread) {
      if (summed_[thread] == 0) continue;
      const int64_t* from = thread_sums(static_cast<int>(thread), n);
      for (int64_t i = begin; i < end; ++i) call.sums->sums[i] += from[i];
    }
  });
}

/// Returns the integer sums [n] of a thread other than thread 0.
int64_t* SparseFfn::thread_sums(int thread, int64_t n) {
  return reinterpret_cast<int64_t*>(thread_sums_.floats()) + (thread - 1) * n;
}

/// Adds a range's active neurons, listed from index `begin` on, to the thread's sums.
void SparseFfn::sum_range(const Call& call, int64_t index, int64_t begin, int thread) {
  Range& range = ranges_[static_cast<size_t>(index)];
  const int64_t n_cols = call.down->n_cols, n = call.n_tokens * n_cols;
  int64_t* sums = thread == 0 ? call.sums->sums : thread_sums(thread, n);
  uint8_t& summed = summed_[static_cast<size_t>(thread)];
  if (thread != 0 && summed == 0) std::fill_n(sums, n, int64_t{0});
  summed = 1;
  for (int t = 0; t < call.n_tokens; ++t) {
    const int n_listed = range.n_listed[static_cast<size_t>(t)];
    const DownSumsArgs args{.down = call.down,
                            .ids = list_ids_ + t * max_cols_ + begin,
                            .values = list_values_ + t * max_cols_ + begin,
                            .n = n_listed,
                            .column_begin = 0,
                            .column_end = n_cols,
                            .sums = sums + t * n_cols,
                            .parts = sum_parts_.floats() + 3 * thread * max_cols_};
    const bool finite =
        std::all_of(args.values, args.values + n_listed, [](float value) { return std::isfinite(value); });
    if (!finite) range.poison |= uint32_t{1} << t;
    if (call.down->rows) {
      sums_kernels_.add_rows[static_cast<size_t>(call.down->rows.dtype)](args);
    } else {
      sums_kernels_.add_coded(args);
    }
  }
}

// ---- many tokens: a row of the down projection is dequantized once for all of them -----------------------

const NeuronSet& SparseFfn::pass_gates(const FfnNeurons& ffn, const float* gates, int n_tokens,
                                       const NeuronSet& set, NeuronCounts& counts) {
  const int64_t n_neurons = set.n_neurons();
  passed_.clear(n_tokens, n_neurons);
  pool_.for_each_piece(n_tokens, 1, [&](int64_t t, int64_t, int) {
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

const NeuronSet& SparseFfn::keep_from(const float* values, const float* sizes, int n_tokens,
                                      const NeuronSet& set, float at_least) {
  select(values, sizes, n_tokens, set.n_neurons(), at_least, passed_);
  for (int t = 0; t < n_tokens; ++t) {
    for (size_t w = 0; w < set.words(); ++w) passed_.wanted(t)[w] &= set.wanted(t)[w];
  }
  passed_.collect();
  return passed_;
}

/// Fills active_, starts_, products_, ranges_of_ and any_, and adds to counts.
void SparseFfn::find_active(const ManyCall& call, NeuronCounts& counts) {
  const int64_t n_neurons = call.set->n_neurons();
  const size_t n_words = call.set->words(), n_tokens = static_cast<size_t>(call.n_tokens);
  const size_t words_of_range = static_cast<size_t>(neuron_range(n_neurons) / 64);
  pool_.for_each_piece(call.n_tokens, 1, [&](int64_t t, int64_t, int) {
    const float* values = call.values + t * n_neurons;
    const uint64_t* wanted = call.set->wanted(static_cast<int>(t));
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
  pool_.for_each_piece(static_cast<int64_t>(n_words), 1, [&](int64_t word, int64_t, int) {
    const size_t w = static_cast<size_t>(word);
    float* to = products() + starts_[w * n_tokens];
    for (size_t t = 0; t < n_tokens; ++t) {
      const float* values = call.values + static_cast<int64_t>(t) * n_neurons + word * 64;
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

void SparseFfn::run_many(const ManyCall& call, NeuronCounts& counts) {
  const DownColumns& down = *call.down;
  const int n_tokens = call.n_tokens;
  find_active(call, counts);
  // A strip of columns is one panel wide, or two for types whose blocks are two panels wide.
  const bool wide = down.rows && dtype_info(down.rows.dtype).block_elems > kPanelWidth;
  const int64_t width = wide ? 2 * kPanelWidth : kPanelWidth;
  const int64_t n_strips = (down.n_cols + width - 1) / width;
  // If there are few columns and many threads, tokens are split too, although each part then dequantizes the
  // same weights.
  constexpr int64_t kPiecesPerThread = 4, kTokensOfPiece = 64;
  const int64_t wanted = (pool_.n_threads() * kPiecesPerThread + n_strips - 1) / n_strips;
  const int64_t most_parts = std::clamp<int64_t>(n_tokens / kTokensOfPiece, 1, wanted);
  const int64_t tokens_of_part = (n_tokens + most_parts - 1) / most_parts;
  const int64_t parts = (n_tokens + tokens_of_part - 1) / tokens_of_part;  // no part is empty
  pool_.for_each_piece(n_strips * parts, 1, [&](int64_t piece, int64_t, int thread) {
    const int64_t column = piece / parts * width;
    const int first = static_cast<int>(piece % parts * tokens_of_part);
    const int n = static_cast<int>(std::min<int64_t>(tokens_of_part, n_tokens - first));
    const int64_t n_columns = std::min(width, down.n_cols - column);
    if (call.sums != nullptr) {
      sum_columns(call, column, n_columns, first, n, thread);
    } else {
      add_columns(call, column, n_columns, first, n, thread);
    }
  });
}

void SparseFfn::add_columns(const ManyCall& call, int64_t column, int64_t n_columns, int first_token,
                            int n_tokens, int thread) {
  const size_t words_of_range = static_cast<size_t>(neuron_range(call.set->n_neurons()) / 64);
  const size_t n_words = call.set->words();
  float* sums = sums_[static_cast<size_t>(thread)].floats();
  const int64_t half = int64_t{max_tokens_} * kPanelWidth;
  const int n_halves = n_columns > kPanelWidth ? 2 : 1;
  for (int h = 0; h < n_halves; ++h) std::fill_n(sums + h * half, int64_t{n_tokens} * kPanelWidth, 0.0f);
  for (size_t word = 0; word < n_words; ++word) {
    if (any_[word] != 0) add_word(call, word, column, n_columns, first_token, n_tokens, thread);
    const bool range_ends = (word + 1) % words_of_range == 0 || word + 1 == n_words;
    if (!range_ends) continue;
    const size_t range = word / words_of_range;
    for (int t = 0; t < n_tokens; ++t) {
      if (((ranges_of_[static_cast<size_t>(first_token + t)] >> range) & 1) == 0) continue;
      for (int h = 0; h < n_halves; ++h) {
        float* sum = sums + h * half + int64_t{t} * kPanelWidth;
        const int64_t n = std::min<int64_t>(kPanelWidth, n_columns - h * kPanelWidth);
        kernels_.add(sum, n, call.out + (first_token + t) * call.down->n_cols + column + h * kPanelWidth);
        std::fill_n(sum, kPanelWidth, 0.0f);
      }
    }
  }
  if (call.down->bias == nullptr) return;
  for (int t = first_token; t < first_token + n_tokens; ++t) {
    kernels_.add(call.down->bias + column, n_columns, call.out + t * call.down->n_cols + column);
  }
}

/// Fills the thread's panel with the weights of the active neurons, for the neurons of one word of the set.
/// For CodedColumns with float sums, fills it with their codes.
void SparseFfn::fill_panel(const ManyCall& call, size_t word, int64_t column, int64_t n_columns, int thread) {
  const DownColumns& down = *call.down;
  float* panel = panels_[static_cast<size_t>(thread)].data();
  const int64_t first = static_cast<int64_t>(word) * 64;
  for (uint64_t left = any_[word]; left != 0; left &= left - 1) {
    const int i = std::countr_zero(left);
    if (first + i + 64 < down.n_neurons) prefetch_columns(down, first + i + 64, column, n_columns);
    float* row = panel + int64_t{i} * kPanelWidth;
    if (!down.rows) {
      const auto decode = call.sums == nullptr ? kernels_.decode : sums_kernels_.dequantize_coded;
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

/// Adds the active neurons of one word of the set (64 neurons).
void SparseFfn::add_word(const ManyCall& call, size_t word, int64_t column, int64_t n_columns,
                         int first_token, int n_tokens, int thread) {
  const DownColumns& down = *call.down;
  float* panel = panels_[static_cast<size_t>(thread)].data();
  const int64_t first = static_cast<int64_t>(word) * 64;
  fill_panel(call, word, column, n_columns, thread);
  DownPanelArgs args;
  const size_t place = word * static_cast<size_t>(call.n_tokens) + static_cast<size_t>(first_token);
  args.wanted = active_.data() + place;
  args.values = products() + starts_[place];
  args.n_tokens = n_tokens;
  float* sums = sums_[static_cast<size_t>(thread)].floats();
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

// ---- many tokens, integer sums: threads take columns and add to the caller's sums -------------------------

void SparseFfn::down_many_sums(const DownColumns& down, const float* values, int n_tokens,
                               const NeuronSet& set, const NeuronSums& sums, NeuronCounts& counts) {
  pool_.for_each_piece(n_tokens, 1, [&](int64_t t, int64_t, int) {
    const float* own = values + t * set.n_neurons();
    const uint64_t* wanted = set.wanted(static_cast<int>(t));
    bool finite = true;
    for (size_t w = 0; w < set.words(); ++w) {
      for (uint64_t left = wanted[w]; left != 0; left &= left - 1) {
        finite &= std::isfinite(own[w * 64 + static_cast<size_t>(std::countr_zero(left))]);
      }
    }
    if (!finite) sums.poison[t] = 1;
  });
  run_many({&down, values, n_tokens, &set, nullptr, &sums}, counts);
}

void SparseFfn::sum_columns(const ManyCall& call, int64_t column, int64_t n_columns, int first_token,
                            int n_tokens, int thread) {
  const int64_t n_cols = call.down->n_cols;
  if (call.down->rows && sums_kernels_.fill_terms[static_cast<size_t>(call.down->rows.dtype)] != nullptr)
    return sum_term_columns(call, column, n_columns, first_token, n_tokens, thread);
  for (size_t word = 0; word < call.set->words(); ++word) {
    if (any_[word] == 0) continue;
    fill_panel(call, word, column, n_columns, thread);
    const size_t place = word * static_cast<size_t>(call.n_tokens) + static_cast<size_t>(first_token);
    for (int64_t begin = 0; begin < n_columns; begin += kPanelWidth) {
      sums_kernels_.add_panel(
          {.weights = panels_[static_cast<size_t>(thread)].data() + begin / kPanelWidth * kPanelFloats,
           .wanted = active_.data() + place,
           .values = products() + starts_[place],
           .n_tokens = n_tokens,
           .n_columns = std::min<int64_t>(kPanelWidth, n_columns - begin),
           .sums = call.sums->sums + first_token * n_cols + column + begin,
           .stride = n_cols});
    }
  }
}

/// Like sum_columns(), but for types with terms, whose panels hold codes.
void SparseFfn::sum_term_columns(const ManyCall& call, int64_t column, int64_t n_columns, int first_token,
                                 int n_tokens, int thread) {
  const DownColumns& down = *call.down;
  const auto type = static_cast<size_t>(down.rows.dtype);
  std::array<TermPanel, 2>& panels = term_panels_[static_cast<size_t>(thread)];
  for (size_t word = 0; word < call.set->words(); ++word) {
    const int64_t first = static_cast<int64_t>(word) * 64;
    for (uint64_t left = any_[word]; left != 0; left &= left - 1) {
      const int i = std::countr_zero(left);
      if (first + i + 64 < down.n_neurons) prefetch_columns(down, first + i + 64, column, n_columns);
      sums_kernels_.fill_terms[type](down.rows, first + i, column, n_columns, i, panels.data());
    }
    const size_t place = word * static_cast<size_t>(call.n_tokens) + static_cast<size_t>(first_token);
    for (int64_t begin = 0; begin < n_columns && any_[word] != 0; begin += kPanelWidth) {
      sums_kernels_.add_term_panel[type](
          {.panel = &panels[static_cast<size_t>(begin / kPanelWidth)],
           .wanted = active_.data() + place,
           .values = products() + starts_[place],
           .n_tokens = n_tokens,
           .n_columns = std::min<int64_t>(kPanelWidth, n_columns - begin),
           .sums = call.sums->sums + first_token * down.n_cols + column + begin,
           .stride = down.n_cols});
    }
  }
}

}  // namespace hearth
