// Measures on this machine the cost of a row in a product of listed rows, relative to a row in a product of
// all rows.
//
// Why: the tokens of a prompt together need most of a layer's rows. Multiplying all rows may then cost less
// than multiplying a list of them, because listed rows are read one by one and their products are copied back
// to their columns. The difference depends on the processor, the type and the number of tokens. The choice
// changes no bit of a result. Owned by CpuBackend; engine thread only.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>

#include "kernels/dtype.h"

namespace hearth {

class RowCost {
 public:
  /// The maximum numbers of rows and tokens that one measurement multiplies. A measurement takes a
  /// millisecond or less, and is made once for each type, width and batch size. Batches of more than kTokens
  /// tokens use the measurement for kTokens. Their cost per token is the same, because weights are unpacked
  /// for at most 128 tokens at a time.
  static constexpr int64_t kRows = 256;
  static constexpr int kTokens = 64;

  /// Returns the cost of a listed row divided by the cost of a row in a product of all rows. multiply_all()
  /// and multiply_listed() must multiply min(kRows, n_listed) rows with `n_tokens` tokens; n_tokens is at
  /// most kTokens and a power of two.
  template <class All, class Listed>
  double ratio(DType type, int64_t n_cols, int n_tokens, All&& multiply_all, Listed&& multiply_listed) {
    for (const Entry& entry : entries_) {
      if (entry.n_tokens == n_tokens && entry.n_cols == n_cols && entry.type == type) return entry.ratio;
    }
    double all = 1e30, listed = 1e30;
    // The first round only fills caches. The fastest of the remaining rounds counts, because nothing
    // disturbed it.
    for (int round = 0; round < 4; ++round) {
      const double all_seconds = seconds_of(multiply_all), listed_seconds = seconds_of(multiply_listed);
      if (round == 0) continue;
      all = all_seconds < all ? all_seconds : all;
      listed = listed_seconds < listed ? listed_seconds : listed;
    }
    Entry& entry = entries_[next_++ % entries_.size()];
    entry = {type, n_cols, n_tokens, listed / (all > 0.0 ? all : 1e-9)};
    return entry.ratio;
  }

 private:
  struct Entry {
    DType type = DType::kF32;
    int64_t n_cols = 0;
    int n_tokens = 0;
    double ratio = 1.0;
  };
  template <class Body>
  static double seconds_of(Body&& body) {
    const auto start = std::chrono::steady_clock::now();
    body();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  std::array<Entry, 32> entries_{};  // more entries than a model has types, widths and batch sizes
  size_t next_ = 0;
};

}  // namespace hearth
