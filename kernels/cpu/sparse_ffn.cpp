// Few tokens: a range of neurons is one thread's, from gate to down. See sparse_ffn.h.
#include "kernels/cpu/sparse_ffn.h"

#include <algorithm>
#include <cassert>

namespace hearth {

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
  sum_parts_ = memory.allocate(2 * static_cast<size_t>(pool_.n_threads()) * row * sizeof(float));
  summed_.resize(static_cast<size_t>(pool_.n_threads()));
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
  for (Buffer& sums : sums_) sums = memory.allocate(2 * tokens * kPanelWidth * sizeof(float));
}

void SparseFfn::select(const float* values, const float* sizes, int n_tokens, int64_t n_neurons,
                       float at_least, NeuronSet& set) {
  set.clear(n_tokens, n_neurons);
  // Words of a piece: 8192 scores are 32 KB, a few microseconds.
  constexpr int64_t kWords = 128;
  const int64_t n_words = static_cast<int64_t>(set.words());
  const int64_t parts = (n_words + kWords - 1) / kWords;
  pool_.for_each_chunk(n_tokens * parts, 1, [&](int64_t piece, int64_t, int) {
    const int t = static_cast<int>(piece / parts);
    const int64_t word = piece % parts * kWords;
    const int64_t n = std::min((word + kWords) * 64, n_neurons) - word * 64;
    kernels_.select(values + t * n_neurons + word * 64, sizes == nullptr ? nullptr : sizes + word * 64, n,
                    at_least, set.wanted(t) + word);
  });
  set.collect();
}

void SparseFfn::ffn_few(const FfnNeurons& ffn, const float* x, const std::byte* quantized, int n_tokens,
                        const NeuronSet& set, const float* gates, float* out, NeuronCounts& counts) {
  const Step step{&ffn, &ffn.down, x, quantized, n_tokens, &set, gates, counts.found};
  run_ranges(step, counts);
  add_partials(step, out);
}

void SparseFfn::down_few(const DownColumns& down, const float* values, int n_tokens, const NeuronSet& set,
                         float* out, NeuronCounts& counts) {
  const Step step{nullptr, &down, nullptr, nullptr, n_tokens, &set, values, counts.found};
  run_ranges(step, counts);
  add_partials(step, out);
}

void SparseFfn::run_ranges(const Step& step, NeuronCounts& counts) {
  assert(step.n_tokens <= std::min(max_tokens_, kMaxFewTokens));
  if (step.found != nullptr) {
    std::fill_n(step.found->bits, static_cast<size_t>(step.n_tokens) * step.set->words(), uint64_t{0});
  }
  pool_.for_each_chunk(kNeuronRanges, 1, [&](int64_t range, int64_t, int worker) {
    run_range(step, static_cast<int>(range), worker);
  });
  for (const RangeCounts& range : range_counts_) {
    counts.gate_rows += range.gate_rows;
    counts.up_rows += range.up_rows;
    counts.down_rows += range.down_rows;
    counts.passed += range.passed;
    counts.active += range.active;
  }
}

void SparseFfn::run_range(const Step& step, int range, int worker) {
  const std::span<const int32_t> ids = step.set->ids();
  const int64_t size = neuron_range(step.set->n_neurons());
  const auto place_of = [&](int64_t neuron) {
    return std::lower_bound(ids.begin(), ids.end(), static_cast<int32_t>(neuron)) - ids.begin();
  };
  RangeCounts& counts = range_counts_[static_cast<size_t>(range)];
  std::array<int, kMaxFewTokens>& n_listed = n_listed_[static_cast<size_t>(range)];
  counts = {};
  n_listed.fill(0);
  Places places{ids.data(), place_of(range * size), place_of((range + 1) * size)};
  if (places.n() == 0) return;
  places = values_of_range(step, places, counts);
  list_active(step, places, n_listed.data(), counts);
  if (step.found != nullptr) note_active(step, places.begin, n_listed.data());
  if (step.sums != nullptr) {
    sum_range(step, range, places.begin, worker);
  } else {
    add_range(step, range, places.begin);
  }
}

/// A range's listed neurons, from place `begin` on, to its partial sums.
void SparseFfn::add_range(const Step& step, int range, int64_t begin) {
  for (int t = 0; t < step.n_tokens; ++t) {
    const int n = n_listed_[static_cast<size_t>(range)][static_cast<size_t>(t)];
    if (n == 0) continue;
    const DownArgs args{.down = step.down,
                        .ids = list_ids_ + t * max_cols_ + begin,
                        .values = list_values_ + t * max_cols_ + begin,
                        .n = n,
                        .fresh = true,
                        .column_begin = 0,
                        .column_end = step.down->n_cols,
                        .sum = partials_ + (range * step.n_tokens + t) * max_cols_};
    if (step.down->rows) {
      kernels_.add_rows[static_cast<size_t>(step.down->rows.dtype)](args);
    } else {
      kernels_.add_coded(args);
    }
  }
}

/// Values of a range's neurons to few_ups_, by place; of which neurons is returned.
SparseFfn::Places SparseFfn::values_of_range(const Step& step, Places places, RangeCounts& counts) {
  const int64_t begin = places.begin;
  float* from_gates = step.ffn == nullptr ? few_ups_ : few_gates_;
  if (step.given != nullptr) {
    for (int t = 0; t < step.n_tokens; ++t) {
      const float* given = step.given + t * step.set->n_neurons();
      float* to = from_gates + t * max_cols_;
      for (int64_t i = begin; i < places.end; ++i) to[i] = given[places.ids[i]];
    }
  } else {
    multiply(step, step.ffn->gate, step.ffn->gate_bias, places, few_gates_);
    counts.gate_rows = places.n();
  }
  if (step.ffn == nullptr) return places;
  for (int t = 0; t < step.n_tokens; ++t) {
    const int64_t at = t * max_cols_ + begin;
    vector_.gated_activation(step.ffn->activation, few_gates_ + at, ones_.data(), places.n(), few_ups_ + at);
  }
  places = keep_passed(step, places, counts);
  if (!step.ffn->up || places.n() == 0) return places;
  multiply(step, step.ffn->up, step.ffn->up_bias, places, few_ups_);
  counts.up_rows = places.n();
  for (int t = 0; t < step.n_tokens; ++t) {
    const int64_t at = t * max_cols_ + begin;
    vector_.gated_activation(step.ffn->activation, few_gates_ + at, few_ups_ + at, places.n(), few_ups_ + at);
  }
  return places;
}

/// Products of the rows at these places with all tokens, by place.
void SparseFfn::multiply(const Step& step, const Matrix& weight, const float* bias, Places places,
                         float* to) {
  const MatmulArgs args{.weight = &weight,
                        .rows = places.ids,
                        .row_begin = places.begin,
                        .row_end = places.end,
                        .x = step.x,
                        .quantized = step.quantized,
                        .n_tokens = step.n_tokens,
                        .bias = bias,
                        .out = to,
                        .out_stride = max_cols_};
  matmul_.multiply[static_cast<size_t>(weight.dtype)](args);
}

/// Drops places whose act(gate), in few_ups_, is zero for every token that wants them; gates and activations
/// of the others move up.
SparseFfn::Places SparseFfn::keep_passed(const Step& step, Places places, RangeCounts& counts) {
  int64_t n = places.begin;
  for (int64_t i = places.begin; i < places.end; ++i) {
    const int32_t id = places.ids[i];
    int n_passed = 0;
    for (int t = 0; t < step.n_tokens; ++t) {
      float* gates = few_gates_ + t * max_cols_;
      float* ups = few_ups_ + t * max_cols_;
      n_passed += step.set->wants(t, id) && ups[i] != 0.0f ? 1 : 0;
      gates[n] = gates[i];
      ups[n] = ups[i];
    }
    counts.passed += n_passed;
    passed_ids_[n] = id;
    n += n_passed > 0 ? 1 : 0;
  }
  return {passed_ids_, places.begin, n};
}

/// Each token's neurons and values that are wanted and not zero.
void SparseFfn::list_active(const Step& step, Places places, int* n_listed, RangeCounts& counts) {
  for (int64_t i = places.begin; i < places.end; ++i) {
    const int32_t id = places.ids[i];
    int n_active = 0;
    for (int t = 0; t < step.n_tokens; ++t) {
      const float value = few_ups_[t * max_cols_ + i];
      const int64_t at = t * max_cols_ + places.begin + n_listed[t];
      list_ids_[at] = id;
      list_values_[at] = value;
      const int active = step.set->wants(t, id) && value != 0.0f ? 1 : 0;
      n_listed[t] += active;
      n_active += active;
    }
    counts.active += n_active;
    counts.down_rows += n_active > 0 ? 1 : 0;
  }
}

/// A range's listed neurons, from place `begin` on, for whoever counts. Ranges are whole words of bits.
void SparseFfn::note_active(const Step& step, int64_t begin, const int* n_listed) {
  const int64_t n_neurons = step.set->n_neurons();
  for (int t = 0; t < step.n_tokens; ++t) {
    uint64_t* bits = step.found->bits + static_cast<size_t>(t) * step.set->words();
    float* values = step.found->values + t * n_neurons;
    const int64_t at = t * max_cols_ + begin;
    for (int i = 0; i < n_listed[t]; ++i) {
      const int32_t id = list_ids_[at + i];
      bits[id / 64] |= uint64_t{1} << (id % 64);
      values[id] = list_values_[at + i];
    }
  }
}

void SparseFfn::add_partials(const Step& step, float* out) {
  // Columns of a piece: its partials are 64 KB, some microseconds of reading what another core wrote.
  constexpr int64_t kColumns = 1024;
  const int64_t n_cols = step.down->n_cols;
  const int64_t parts = (n_cols + kColumns - 1) / kColumns;
  pool_.for_each_chunk(step.n_tokens * parts, 1, [&](int64_t piece, int64_t, int) {
    const int t = static_cast<int>(piece / parts);
    const int64_t column = piece % parts * kColumns, n = std::min(kColumns, n_cols - column);
    float* to = out + t * n_cols + column;
    for (int range = 0; range < kNeuronRanges; ++range) {
      if (n_listed_[static_cast<size_t>(range)][static_cast<size_t>(t)] == 0) continue;
      kernels_.add(partials_ + (range * step.n_tokens + t) * max_cols_ + column, n, to);
    }
    if (step.down->bias != nullptr) kernels_.add(step.down->bias + column, n, to);
  });
}

}  // namespace hearth
