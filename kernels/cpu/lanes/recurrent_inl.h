// The operations of recurrent layers (kernels/recurrent.h): the convolution, the gates, and the gated delta
// rule and the selective scan for one group of 16 columns. The source uses the class Lanes and is compiled
// once per ISA.
//
// Lanes are columns or channels, so no sum crosses lanes. Included after rows_inl.h; the rules of that file
// apply here.
#pragma once

#include "kernels/cpu/lanes/rows_inl.h"

namespace hearth {
namespace {

void convolve(const ConvolvedChannels& call) {
  const bool has_silu = call.silu;
  const float* const bias = call.bias;
  for_each_lanes(call.n, [&](int64_t i, int count) {
    Lanes sum = Lanes::mul(load_up_to(call.taps + i, count), load_up_to(call.rows[0] + i, count));
    for (int tap = 1; tap < call.n_taps; ++tap) {
      sum = Lanes::fma(load_up_to(call.taps + tap * call.taps_stride + i, count),
                       load_up_to(call.rows[tap] + i, count), sum);
    }
    if (bias != nullptr) sum = Lanes::add(sum, load_up_to(bias + i, count));
    store_up_to(has_silu ? silu(sum) : sum, call.out + i, count);
  });
}

void delta_gates(const float* alpha, const float* beta_logits, const float* dt, const float* a, int64_t n,
                 float* decay, float* beta) {
  for_each_lanes(n, [&](int64_t i, int count) {
    const Lanes steps = softplus(Lanes::add(load_up_to(alpha + i, count), load_up_to(dt + i, count)));
    const Lanes of_input = beta_logits == nullptr ? steps : logistic(load_up_to(beta_logits + i, count));
    store_up_to(exponential(Lanes::mul(load_up_to(a + i, count), steps)), decay + i, count);
    store_up_to(of_input, beta + i, count);
  });
}

/// Four partial sums over the key rows: row i belongs to sum i mod 4.
struct RowSums {
  Lanes part[4];
  RowSums() : part{Lanes::all(0.0f), Lanes::all(0.0f), Lanes::all(0.0f), Lanes::all(0.0f)} {}
  Lanes total() const { return Lanes::add(Lanes::add(part[0], part[1]), Lanes::add(part[2], part[3])); }
};

/// Calls body(row, part) for all rows in ascending order, where part = row mod 4.
template <class Body>
inline void for_each_row(int n_rows, Body&& body) {
  int i = 0;
  for (; i + 4 <= n_rows; i += 4) {
    for (int part = 0; part < 4; ++part) body(i + part, part);
  }
  for (int part = 0; i + part < n_rows; ++part) body(i + part, part);
}

/// S[i] = k[i] * u + decay * S[i]. Returns the new S[i].
inline Lanes updated(float* row, float k, Lanes u, Lanes decay) {
  const Lanes now = Lanes::fma(Lanes::all(k), u, Lanes::mul(decay, Lanes::load(row)));
  Lanes::store(now, row);
  return now;
}

/// Requests what delta_tokens() reads and writes of token t, except gates. Rows of consecutive tokens are far
/// apart, so the hardware does not prefetch them.
inline void request_token(const DeltaTokens& call, int64_t t) {
  constexpr int64_t kLineFloats = 16;
  for (int64_t i = 0; i < call.n_rows; i += kLineFloats) {
    __builtin_prefetch(call.k + t * call.key_stride + i);
    __builtin_prefetch(call.q + t * call.key_stride + i);
  }
  __builtin_prefetch(call.v + t * call.value_stride);
  __builtin_prefetch(call.out + t * call.value_stride, /*rw=*/1);
}

constexpr int kRequestedAhead = 2;  // a token takes longer than a cache miss

template <bool kRowDecays>
void delta_tokens_of(const DeltaTokens& call) {
  constexpr int kColumns = RecurrentShape::kColumns;
  // Copies, because the compiler must assume that stores to the state change the fields of `call`.
  float* const state = call.state;
  const int n_rows = call.n_rows;
  for (int64_t t = 0; t < call.n_tokens; ++t) {
    if (t + kRequestedAhead < call.n_tokens) request_token(call, t + kRequestedAhead);
    const float* const k = call.k + t * call.key_stride;
    const float* const q = call.q + t * call.key_stride;
    const float* const decay = call.decay + t * call.decay_stride;

    RowSums remembered;
    for_each_row(n_rows, [&](int i, int part) {
      const float key = kRowDecays ? decay[i] * k[i] : k[i];
      remembered.part[part] =
          Lanes::fma(Lanes::load(state + i * kColumns), Lanes::all(key), remembered.part[part]);
    });
    const Lanes v = load_up_to(call.v + t * call.value_stride, call.n_columns);
    const Lanes error = Lanes::fma(Lanes::all(kRowDecays ? -1.0f : -decay[0]), remembered.total(), v);
    const Lanes u = Lanes::mul(Lanes::all(call.beta[t * call.gate_stride]), error);
    if (call.deltas != nullptr) store_up_to(u, call.deltas + t * call.delta_stride, call.n_columns);

    RowSums outs;
    const Lanes of_all = Lanes::all(decay[0]);
    for_each_row(n_rows, [&](int i, int part) {
      const Lanes of_row = kRowDecays ? Lanes::all(decay[i]) : of_all;
      const Lanes now = updated(state + i * kColumns, k[i], u, of_row);
      outs.part[part] = Lanes::fma(now, Lanes::all(q[i]), outs.part[part]);
    });
    store_up_to(outs.total(), call.out + t * call.value_stride, call.n_columns);
  }
}

void delta_tokens(const DeltaTokens& call) {
  if (call.row_decays) return delta_tokens_of<true>(call);
  delta_tokens_of<false>(call);
}

void scan_tokens(const DeltaTokens& call) {
  constexpr int kColumns = RecurrentShape::kColumns;
  float* const state = call.state;
  const int n_rows = call.n_rows;
  const Lanes skip = Lanes::all(call.skip);
  for (int64_t t = 0; t < call.n_tokens; ++t) {
    if (t + kRequestedAhead < call.n_tokens) request_token(call, t + kRequestedAhead);
    const float* const k = call.k + t * call.key_stride;
    const float* const q = call.q + t * call.key_stride;
    const Lanes v = load_up_to(call.v + t * call.value_stride, call.n_columns);
    const Lanes u = Lanes::mul(Lanes::all(call.beta[t * call.gate_stride]), v);
    if (call.deltas != nullptr) store_up_to(u, call.deltas + t * call.delta_stride, call.n_columns);
    RowSums outs;
    const Lanes decays = Lanes::all(call.decay[t * call.decay_stride]);
    for_each_row(n_rows, [&](int i, int part) {
      const Lanes now = updated(state + i * kColumns, k[i], u, decays);
      outs.part[part] = Lanes::fma(now, Lanes::all(q[i]), outs.part[part]);
    });
    store_up_to(Lanes::fma(skip, v, outs.total()), call.out + t * call.value_stride, call.n_columns);
  }
}

void delta_replay(const DeltaReplay& call) {
  float* const state = call.state;
  const int n_rows = call.n_rows;
  for (int64_t t = 0; t < call.n_tokens; ++t) {
    const int64_t at = t * call.stride;
    const float* const k = call.k + at;
    const Lanes u = load_up_to(call.deltas + at, call.n_columns);
    const float* const decay = call.decay + at;
    for (int i = 0; i < n_rows; ++i) {
      const Lanes of_row = Lanes::all(decay[call.row_decays ? i : 0]);
      updated(state + i * RecurrentShape::kColumns, k[i], u, of_row);
    }
  }
}

}  // namespace
}  // namespace hearth
