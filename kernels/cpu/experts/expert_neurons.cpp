// Implements ExpertNeurons: the two ways to compute experts with down columns.
#include "kernels/cpu/experts/expert_neurons.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>

namespace hearth {
namespace {

constexpr int64_t kWordNeurons = 64;
// The maximum number of bytes of gate rows in a run of neurons: the size of the largest piece of a matrix
// product (matmul_jobs.cpp).
constexpr int64_t kMaxRunBytes = 512 * 1024;
// Pieces of the down projection per thread. There are several because experts differ in their number of
// active neurons.
constexpr int64_t kPiecesPerThread = 8;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t words_of(int64_t n_neurons) { return ceil_div(n_neurons, kWordNeurons); }

/// Returns the matrix whose rows are all read, and whose products decide which neurons are active.
const Matrix& first_matrix(const Expert& expert) { return expert.gate ? expert.gate : expert.up; }
const float* first_bias(const Expert& expert) { return expert.gate ? expert.gate_bias : expert.up_bias; }

/// Prefetches scattered rows into the L2 cache, because the hardware does not predict accesses to them. With
/// one active neuron in ten, a layer of experts took 4 % less time (Zen 5, Q4_0, 2 threads).
void prefetch_rows(const Matrix& weight, std::span<const int32_t> rows) {
  for (const int32_t row : rows) {
    const std::byte* begin = weight.row(row);
    for (size_t at = 0; at < weight.stride_bytes(); at += 64) __builtin_prefetch(begin + at, 0, 2);
  }
}

}  // namespace

void ExpertNeurons::reserve(const StepBounds& bounds, Backend& memory) {
  const auto threads = static_cast<size_t>(pool_.n_threads());
  const size_t n_pairs = static_cast<size_t>(bounds.max_tokens) * static_cast<size_t>(bounds.n_experts_used);
  max_neurons_ = bounds.expert_cols;
  const size_t neurons = static_cast<size_t>(max_neurons_);
  const size_t words = static_cast<size_t>(words_of(max_neurons_));
  ones_.assign(neurons, 1.0f);
  run_ids_.resize(threads * neurons);
  ids_.resize(n_pairs * neurons);
  n_listed_.resize(n_pairs * words);
  bits_.resize(n_pairs * words);
  values_ = memory.allocate(n_pairs * neurons * sizeof(float));
  panels_.resize(threads);
  const size_t panel_floats = static_cast<size_t>(kPanelFloats) +
                              (2 + static_cast<size_t>(bounds.max_tokens)) * static_cast<size_t>(kPanelWidth);
  for (Buffer& panel : panels_) panel = memory.allocate(n_pairs == 0 ? 0 : panel_floats * sizeof(float));
}

void ExpertNeurons::run(const Call& call, ExpertCounts& counts) {
  assert(call.d_expert <= max_neurons_);
  passed_ = active_ = up_rows_ = down_rows_ = 0;
  if (!call.few.empty()) find_active_of_few(call);
  if (!call.many.empty()) find_active_of_many(call);
  add_down(call);
  counts.passed += passed_;
  counts.active += active_;
  counts.up_rows += up_rows_;
  counts.down_rows += down_rows_;
}

// ---- experts of few tokens: a thread computes the gate rows, up rows and values of a run of neurons ---

void ExpertNeurons::find_active_of_few(const Call& call) {
  const Matrix& first = first_matrix(*call.few.front().expert);
  const int64_t words = words_of(call.d_expert);
  const auto word_bytes = static_cast<int64_t>(first.stride_bytes()) * kWordNeurons;
  const int64_t most = std::clamp(kMaxRunBytes / std::max<int64_t>(1, word_bytes), int64_t{1}, words);
  const int64_t n_units = static_cast<int64_t>(call.few.size()) * words;
  pool_.for_each_shrinking_piece(n_units, most, [&](int64_t unit, int64_t end, int thread) {
    while (unit < end) {
      const int64_t word = unit % words, n = std::min(words - word, end - unit);
      const int64_t neurons_end = std::min((word + n) * kWordNeurons, call.d_expert);
      compute_run(call, call.few[static_cast<size_t>(unit / words)], word * kWordNeurons, neurons_end,
                  thread);
      unit += n;
    }
  });
}

/// Lists for each token of an expert which of the neurons [begin, end) are active.
void ExpertNeurons::compute_run(const Call& call, const ChosenExpert& chosen, int64_t begin, int64_t end,
                                int thread) {
  const Expert& expert = *chosen.expert;
  const int64_t d_expert = call.d_expert, words = words_of(d_expert), first_at = chosen.first_row * d_expert;
  for (int64_t row = chosen.first_row; row < chosen.first_row + chosen.n_tokens; ++row) {
    std::fill_n(n_listed_.begin() + row * words + begin / kWordNeurons, words_of(end - begin), 0);
  }
  int32_t* ids = run_ids_.data() + thread * max_neurons_;
  int64_t n = end - begin;
  for (int64_t i = 0; i < n; ++i) ids[i] = static_cast<int32_t>(begin + i);
  float *gates = call.gates + first_at + begin, *ups = call.ups + first_at + begin;
  multiply(call, chosen, first_matrix(expert), first_bias(expert), begin, {ids, static_cast<size_t>(n)},
           call.gates);
  if (expert.gate) {
    n = keep_passed(call, chosen, begin, n, ids);
    if (n == 0) return;
    prefetch_rows(expert.up, {ids, static_cast<size_t>(n)});
    multiply(call, chosen, expert.up, expert.up_bias, begin, {ids, static_cast<size_t>(n)}, call.ups);
    up_rows_.fetch_add(n, std::memory_order_relaxed);
  }
  for (int64_t t = 0; t < chosen.n_tokens; ++t) {
    float* values = gates + t * d_expert;
    vector_.gated_activation(call.activation, values, expert.gate ? ups + t * d_expert : nullptr, n, values);
  }
  list_active(call, chosen, begin, {ids, static_cast<size_t>(n)});
}

/// Multiplies the expert's tokens by the listed rows of a weight. Writes the products without gaps to `to`
/// [n_pairs, d_expert], from column `begin` on.
void ExpertNeurons::multiply(const Call& call, const ChosenExpert& chosen, const Matrix& weight,
                             const float* bias, int64_t begin, std::span<const int32_t> rows, float* to) {
  const auto n = static_cast<int64_t>(rows.size());
  float* first_row = to + chosen.first_row * call.d_expert;
  MatmulArgs args{.weight = &weight,
                  .rows = rows.data(),
                  .row_begin = 0,
                  .row_end = n,
                  .x = chosen.x,
                  .quantized = chosen.quantized,
                  .n_tokens = chosen.n_tokens,
                  .bias = bias,
                  .out = first_row + begin,
                  .out_stride = call.d_expert};
  // Adjacent rows are read faster as a range.
  if (rows.front() == begin && rows.back() + 1 == begin + n) {
    args.rows = nullptr;
    args.row_begin = begin;
    args.row_end = begin + n;
    args.out = first_row;
  }
  matmul_.multiply[static_cast<size_t>(weight.dtype)](args);
}

/// Removes the neurons from `ids` [n] whose act(gate) is zero for every token, and their gates. Moves the
/// remaining numbers and gates to the front, and returns the number of remaining neurons. Overwrites the
/// run's part of call.ups.
int64_t ExpertNeurons::keep_passed(const Call& call, const ChosenExpert& chosen, int64_t begin, int64_t n,
                                   int32_t* ids) {
  const int64_t at = chosen.first_row * call.d_expert + begin;
  float *gates = call.gates + at, *acts = call.ups + at;
  for (int64_t t = 0; t < chosen.n_tokens; ++t) {
    vector_.gated_activation(call.activation, gates + t * call.d_expert, ones_.data(), n,
                             acts + t * call.d_expert);
  }
  int64_t n_kept = 0, passed = 0;
  for (int64_t i = 0; i < n; ++i) {
    int n_passed = 0;
    for (int64_t t = 0; t < chosen.n_tokens; ++t) {
      n_passed += acts[t * call.d_expert + i] != 0.0f ? 1 : 0;
      gates[t * call.d_expert + n_kept] = gates[t * call.d_expert + i];
    }
    ids[n_kept] = ids[i];
    n_kept += n_passed > 0 ? 1 : 0;
    passed += n_passed;
  }
  passed_.fetch_add(passed, std::memory_order_relaxed);
  return n_kept;
}

/// Lists each token's active neurons among the run's `ids`, and closes the gaps in their values.
void ExpertNeurons::list_active(const Call& call, const ChosenExpert& chosen, int64_t begin,
                                std::span<const int32_t> ids) {
  const int64_t d_expert = call.d_expert, at = chosen.first_row * d_expert + begin;
  std::array<int32_t, kMaxFewTokens> n_listed{};
  int64_t rows = 0, active = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    int n_active = 0;
    for (int t = 0; t < chosen.n_tokens; ++t) {
      int32_t& n = n_listed[static_cast<size_t>(t)];
      float* values = call.gates + at + t * d_expert;
      const float value = values[i];
      values[n] = value;
      ids_[static_cast<size_t>(at + t * d_expert + n)] = ids[i];
      const int is_active = value != 0.0f ? 1 : 0;
      n += is_active;
      n_active += is_active;
    }
    active += n_active;
    rows += n_active > 0 ? 1 : 0;
  }
  const int64_t words = words_of(d_expert), word = begin / kWordNeurons;
  for (int t = 0; t < chosen.n_tokens; ++t) {
    n_listed_[static_cast<size_t>((chosen.first_row + t) * words + word)] = n_listed[static_cast<size_t>(t)];
  }
  active_.fetch_add(active, std::memory_order_relaxed);
  down_rows_.fetch_add(rows, std::memory_order_relaxed);
  if (!chosen.expert->gate) passed_.fetch_add(active, std::memory_order_relaxed);
}

/// Computes columns [column, column + n_columns) of the expert's rows of `out` from the down rows of the
/// listed neurons.
void ExpertNeurons::add_rows(const Call& call, const ChosenExpert& chosen, int64_t column,
                             int64_t n_columns) {
  const DownColumns& down = chosen.expert->down_columns;
  const int64_t words = words_of(call.d_expert);
  for (int64_t row = chosen.first_row; row < chosen.first_row + chosen.n_tokens; ++row) {
    DownArgs args{.down = &down,
                  .fresh = true,
                  .column_begin = column,
                  .column_end = column + n_columns,
                  .sum = call.out + row * call.d_model + column};
    for (int64_t word = 0; word < words; ++word) {
      args.n = n_listed_[static_cast<size_t>(row * words + word)];
      if (args.n == 0) continue;
      const int64_t at = row * call.d_expert + word * kWordNeurons;
      args.ids = ids_.data() + at;
      args.values = call.gates + at;
      if (down.rows) {
        down_.add_rows[static_cast<size_t>(down.rows.dtype)](args);
      } else {
        down_.add_coded(args);
      }
      args.fresh = false;
    }
    if (args.fresh) std::fill_n(args.sum, n_columns, 0.0f);
    if (chosen.expert->down_bias != nullptr)
      down_.add(chosen.expert->down_bias + column, n_columns, args.sum);
  }
}

// ---- experts of many tokens: a row of the down projection is dequantized once for all of them ---------

void ExpertNeurons::find_active_of_many(const Call& call) {
  const int64_t words = words_of(call.d_expert);
  pool_.for_each_piece(static_cast<int64_t>(call.many.size()) * words, 1, [&](int64_t i, int64_t, int) {
    compute_word(call, call.many[static_cast<size_t>(i / words)], i % words);
  });
}

/// Fills bits_ and values_ for the 64 neurons of one word of an expert.
void ExpertNeurons::compute_word(const Call& call, const ChosenExpert& chosen, int64_t word) {
  const int64_t begin = word * kWordNeurons, n = std::min(kWordNeurons, call.d_expert - begin);
  const bool gated = static_cast<bool>(chosen.expert->gate);
  uint64_t* bits = bits_.data() + chosen.first_row * words_of(call.d_expert) + word * chosen.n_tokens;
  float* values = values_.floats() + chosen.first_row * call.d_expert + begin * chosen.n_tokens;
  uint64_t any = 0;
  int64_t passed = 0, active = 0;
  for (int t = 0; t < chosen.n_tokens; ++t) {
    const int64_t at = (chosen.first_row + t) * call.d_expert + begin;
    float* gates = call.gates + at;
    if (gated) {
      std::array<float, kWordNeurons> acts;
      vector_.gated_activation(call.activation, gates, ones_.data(), n, acts.data());
      passed += std::count_if(acts.begin(), acts.begin() + n, [](float act) { return act != 0.0f; });
    }
    vector_.gated_activation(call.activation, gates, gated ? call.ups + at : nullptr, n, gates);
    bits[t] = 0;
    for (int64_t i = 0; i < n; ++i) {
      const bool is_active = gates[i] != 0.0f;
      bits[t] |= uint64_t{is_active} << i;
      *values = gates[i];
      values += is_active ? 1 : 0;
    }
    any |= bits[t];
    active += std::popcount(bits[t]);
  }
  passed_.fetch_add(gated ? passed : active, std::memory_order_relaxed);
  active_.fetch_add(active, std::memory_order_relaxed);
  if (gated) up_rows_.fetch_add(n, std::memory_order_relaxed);
  down_rows_.fetch_add(std::popcount(any), std::memory_order_relaxed);
}

/// Computes columns [column, column + n_columns) of the expert's rows of `out` from the down rows of the
/// active neurons.
void ExpertNeurons::add_panels(const Call& call, const ChosenExpert& chosen, int64_t column,
                               int64_t n_columns, int thread) {
  float* sums = panels_[static_cast<size_t>(thread)].floats() + kPanelFloats + 2 * kPanelWidth;
  std::fill_n(sums, int64_t{chosen.n_tokens} * kPanelWidth, 0.0f);
  for (int64_t word = 0; word < words_of(call.d_expert); ++word) {
    add_word(call, chosen, word, column, n_columns, thread);
  }
  for (int64_t t = 0; t < chosen.n_tokens; ++t) {
    float* out = call.out + (chosen.first_row + t) * call.d_model + column;
    std::copy_n(sums + t * kPanelWidth, n_columns, out);
    if (chosen.expert->down_bias != nullptr) down_.add(chosen.expert->down_bias + column, n_columns, out);
  }
}

/// Adds the 64 neurons of one word to the thread's sums.
void ExpertNeurons::add_word(const Call& call, const ChosenExpert& chosen, int64_t word, int64_t column,
                             int64_t n_columns, int thread) {
  const DownColumns& down = chosen.expert->down_columns;
  const int64_t first = word * kWordNeurons;
  float* panel = panels_[static_cast<size_t>(thread)].floats();
  float *scales = panel + kPanelFloats, *mins = scales + kPanelWidth;
  DownPanelArgs args{
      .weights = panel,
      .wanted = bits_.data() + chosen.first_row * words_of(call.d_expert) + word * chosen.n_tokens,
      .values = values_.floats() + chosen.first_row * call.d_expert + first * chosen.n_tokens,
      .n_tokens = chosen.n_tokens,
      .sums = mins + kPanelWidth};
  uint64_t any = 0;
  for (int t = 0; t < chosen.n_tokens; ++t) any |= args.wanted[t];
  if (any == 0) return;
  for (uint64_t left = any; left != 0; left &= left - 1) {
    const int i = std::countr_zero(left);
    float* row = panel + i * kPanelWidth;
    if (down.rows) {
      down_.dequantize[static_cast<size_t>(down.rows.dtype)](down.rows, first + i, column, n_columns, row);
    } else {
      down_.decode(down.coded, first + i, column, n_columns, row);
    }
  }
  if (down.rows) return down_.add_panel(args);
  const CodedColumns& coded = down.coded;
  for (int begin = 0; begin < kWordNeurons && first + begin < down.n_neurons; begin += coded.group) {
    const int64_t group = (first + begin) / coded.group;
    down_.factors(coded, coded.scales, group, column, n_columns, scales);
    args.scales = scales;
    if (coded.mins != nullptr) {
      down_.factors(coded, coded.mins, group, column, n_columns, mins);
      args.mins = mins;
    }
    args.group_begin = begin;
    args.group_end = begin + coded.group;
    down_.add_panel(args);
  }
}

// ---- few and many tokens ----

/// A piece is a strip of columns of one expert. Experts with many tokens come first, because their pieces
/// take longer.
void ExpertNeurons::add_down(const Call& call) {
  const auto n_few = static_cast<int64_t>(call.few.size()), n_many = static_cast<int64_t>(call.many.size());
  const int64_t d_model = call.d_model;
  const int64_t wanted = ceil_div(kPiecesPerThread * pool_.n_threads(), std::max<int64_t>(1, n_few));
  const int64_t wide = ceil_div(ceil_div(d_model, wanted), kDownStripColumns) * kDownStripColumns;
  const int64_t wide_strips = ceil_div(d_model, wide), panels = ceil_div(d_model, kPanelWidth);
  pool_.for_each_piece(n_many * panels + n_few * wide_strips, 1, [&](int64_t piece, int64_t, int thread) {
    if (piece < n_many * panels) {
      const int64_t column = piece % panels * kPanelWidth;
      add_panels(call, call.many[static_cast<size_t>(piece / panels)], column,
                 std::min<int64_t>(kPanelWidth, d_model - column), thread);
      return;
    }
    piece -= n_many * panels;
    const int64_t column = piece % wide_strips * wide;
    add_rows(call, call.few[static_cast<size_t>(piece / wide_strips)], column,
             std::min(wide, d_model - column));
  });
}

}  // namespace hearth
