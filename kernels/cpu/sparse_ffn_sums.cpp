// Sums of integers over a share of a layer's neurons (kernels/neuron_sums.h). See sparse_ffn.h.
//
// Few tokens: threads take ranges as for floats, but each adds up all of its ranges in one place, the first
// thread in the caller's. Many tokens: threads take columns and add to the caller's sums in place.
#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/cpu/sparse_ffn.h"

namespace hearth {

void SparseFfn::ffn_few_sums(const FfnNeurons& ffn, const float* x, const std::byte* quantized, int n_tokens,
                             const NeuronSet& set, const float* gates, const NeuronSums& sums,
                             NeuronCounts& counts) {
  run_few_sums({&ffn, &ffn.down, x, quantized, n_tokens, &set, gates, counts.found, &sums}, counts);
}

void SparseFfn::down_few_sums(const DownColumns& down, const float* values, int n_tokens,
                              const NeuronSet& set, const NeuronSums& sums, NeuronCounts& counts) {
  run_few_sums({nullptr, &down, nullptr, nullptr, n_tokens, &set, values, counts.found, &sums}, counts);
}

void SparseFfn::run_few_sums(const Step& step, NeuronCounts& counts) {
  std::ranges::fill(summed_, uint8_t{0});
  poison_.fill(0);
  run_ranges(step, counts);
  uint32_t poison = 0;
  for (uint32_t of_range : poison_) poison |= of_range;
  for (int t = 0; t < step.n_tokens; ++t) {
    if ((poison >> t & 1) != 0) step.sums->poison[t] = 1;
  }
  // The other threads' sums to the caller's. Columns of a piece: as of add_partials().
  constexpr int64_t kColumns = 1024;
  const int64_t n = step.n_tokens * step.down->n_cols;
  const size_t n_threads = summed_.size();
  if (std::find(summed_.begin() + 1, summed_.end(), 1) == summed_.end()) return;
  pool_.for_each_chunk(n, kColumns, [&](int64_t begin, int64_t end, int) {
    for (size_t thread = 1; thread < n_threads; ++thread) {
      if (summed_[thread] == 0) continue;
      const int64_t* from = thread_sums(static_cast<int>(thread), n);
      for (int64_t i = begin; i < end; ++i) step.sums->sums[i] += from[i];
    }
  });
}

/// [n] of a thread that is not the first.
int64_t* SparseFfn::thread_sums(int thread, int64_t n) {
  return reinterpret_cast<int64_t*>(thread_sums_.floats()) + (thread - 1) * n;
}

/// A range's listed neurons, from place `begin` on, to the thread's sums.
void SparseFfn::sum_range(const Step& step, int range, int64_t begin, int worker) {
  const int64_t n_cols = step.down->n_cols, n = step.n_tokens * n_cols;
  int64_t* sums = worker == 0 ? step.sums->sums : thread_sums(worker, n);
  uint8_t& summed = summed_[static_cast<size_t>(worker)];
  if (worker != 0 && summed == 0) std::fill_n(sums, n, int64_t{0});
  summed = 1;
  for (int t = 0; t < step.n_tokens; ++t) {
    const int n_listed = n_listed_[static_cast<size_t>(range)][static_cast<size_t>(t)];
    const DownSumsArgs args{.down = step.down,
                            .ids = list_ids_ + t * max_cols_ + begin,
                            .values = list_values_ + t * max_cols_ + begin,
                            .n = n_listed,
                            .column_begin = 0,
                            .column_end = n_cols,
                            .sums = sums + t * n_cols,
                            .parts = sum_parts_.floats() + 2 * worker * max_cols_};
    const bool finite =
        std::all_of(args.values, args.values + n_listed, [](float value) { return std::isfinite(value); });
    if (!finite) poison_[static_cast<size_t>(range)] |= uint32_t{1} << t;
    if (step.down->rows) {
      sums_kernels_.add_rows[static_cast<size_t>(step.down->rows.dtype)](args);
    } else {
      sums_kernels_.add_coded(args);
    }
  }
}

void SparseFfn::down_many_sums(const DownColumns& down, const float* values, int n_tokens,
                               const NeuronSet& set, const NeuronSums& sums, NeuronCounts& counts) {
  pool_.for_each_chunk(n_tokens, 1, [&](int64_t t, int64_t, int) {
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

void SparseFfn::sum_columns(const ManyStep& step, int64_t column, int64_t n_columns, int first_token,
                            int n_tokens, int worker) {
  const int64_t n_cols = step.down->n_cols;
  for (size_t word = 0; word < step.set->words(); ++word) {
    if (any_[word] == 0) continue;
    fill_panel(step, word, column, n_columns, worker);
    const size_t place = word * static_cast<size_t>(step.n_tokens) + static_cast<size_t>(first_token);
    for (int64_t begin = 0; begin < n_columns; begin += kPanelWidth) {
      sums_kernels_.add_panel(
          {.weights = panels_[static_cast<size_t>(worker)].data() + begin / kPanelWidth * kPanelFloats,
           .wanted = active_.data() + place,
           .values = products() + starts_[place],
           .n_tokens = n_tokens,
           .n_columns = std::min<int64_t>(kPanelWidth, n_columns - begin),
           .sums = step.sums->sums + first_token * n_cols + column + begin,
           .stride = n_cols});
    }
  }
}

}  // namespace hearth
