// See the header.
#include "kernels/cpu/recurrent_cpu.h"

#include <algorithm>
#include <array>
#include <cassert>

namespace hearth {
namespace {

// Channels of a token that a thread convolves together: 4 KiB of each raw row, about a microsecond.
constexpr int64_t kChannels = 1024;
constexpr int kMaxTaps = RecurrentShape::kMaxTaps;

// The groups of columns of a head read the same keys and queries. A thread computes this many tokens of all
// its groups before the next tokens, so that the keys and queries of a head of 128 dimensions (16 KiB) stay
// in its L1 cache. Prompts of 512 tokens took 1.4 times as long without this.
constexpr int kTokensAtOnce = 16;

// The fewest multiply-adds in a piece of the delta rule or of a scan: about a microsecond of one core, which
// is the cost of sharing an operation among threads.
constexpr int64_t kPieceWork = 32 * 1024;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

int n_certain(const RecurrentRun& run) { return run.n_tokens - run.n_uncertain; }

[[maybe_unused]] bool is_valid(const RecurrentRun& run, const RecurrentMemory& memory) {
  return run.n_uncertain >= 0 && run.n_uncertain <= run.n_tokens && run.n_uncertain <= memory.max_drafts &&
         run.n_replayed >= 0 && run.n_replayed <= memory.max_drafts && (!run.fresh || run.n_replayed == 0);
}

/// Calls body(copy) for each copy of the run's certain tokens, in order.
template <class Body>
void for_each_copy(std::span<const RecurrentCopy> copies, const RecurrentRun& run, Body&& body) {
  for (const RecurrentCopy& copy : copies) {
    const int t = copy.after_token - run.first_token;
    if (t < 0 || t >= run.n_tokens) continue;
    assert(t < n_certain(run));
    body(copy);
  }
}

/// The raw rows of one sequence, from some channel on: its tail, its accepted drafts, and its tokens of the
/// step.
struct RawRows {
  const CausalConv& call;
  const RecurrentRun& run;
  int64_t first_channel;

  int n_history() const { return call.shape.n_taps - 1; }
  /// The n-th row before token t of the run is row(t - n). The rows of a fresh run that precede its first
  /// token are zeros.
  const float* row(int t) const {
    static constexpr std::array<float, kChannels> kZeros = {};
    const int64_t width = call.shape.conv_dim();
    if (t >= 0) return call.raw + (run.first_token + t) * width + first_channel;
    if (run.fresh) return kZeros.data();
    const int logged = t + run.n_replayed;
    if (logged >= 0) return logged_row(logged);
    return call.memory.tail(call.shape, run.slot) + (logged + n_history()) * width + first_channel;
  }
  float* logged_row(int i) const { return call.memory.logged_raw(call.shape, run.slot, i) + first_channel; }
};

}  // namespace

void RecurrentCpu::reserve(const RecurrentShape& shape) {
  draft_floats_ = shape.group_floats();
  draft_states_.resize(static_cast<size_t>(draft_floats_) * static_cast<size_t>(pool_.n_threads()));
}

// ---- the convolution -------------------------------------------------------------------------------------

void RecurrentCpu::causal_conv(const CausalConv& call) {
  assert(call.shape.n_taps >= RecurrentShape::kMinTaps && call.shape.n_taps <= kMaxTaps);
  const int64_t of_token = n_pieces(call.shape);
  int64_t n_items = 0;
  for (const RecurrentRun& run : call.runs) n_items += run.n_tokens * of_token;
  const int64_t grain = std::max<int64_t>(1, of_token * kChannels / call.shape.conv_dim());
  pool_.for_each_piece(n_items, grain, [&](int64_t begin, int64_t end, int) {
    for (const RecurrentRun& run : call.runs) {
      const int64_t n = run.n_tokens * of_token;
      for (int64_t i = std::max<int64_t>(begin, 0); i < std::min(end, n); ++i) {
        convolve(call, run, static_cast<int>(i / of_token), channels_at(call, i % of_token));
      }
      begin -= n;
      end -= n;
    }
  });
  // The rows that a sequence keeps are replaced after all threads have read them.
  const int64_t width = call.shape.conv_dim(), n_ranges = ceil_div(width, kChannels);
  pool_.for_each_piece(static_cast<int64_t>(call.runs.size()) * n_ranges, 2,
                       [&](int64_t begin, int64_t end, int) {
                         for (int64_t i = begin; i < end; ++i) {
                           const int64_t first = i % n_ranges * kChannels;
                           keep_rows(call, call.runs[static_cast<size_t>(i / n_ranges)], first,
                                     std::min(kChannels, width - first));
                         }
                       });
}

/// The number of pieces of at most kChannels into which a token's channels are divided.
int64_t RecurrentCpu::n_pieces(const RecurrentShape& shape) {
  int64_t n = 0;
  for (const int64_t width : shape.conv_parts()) n += ceil_div(width, kChannels);
  return n;
}

RecurrentCpu::Channels RecurrentCpu::channels_at(const CausalConv& call, int64_t index) {
  const std::array<int64_t, 3> widths = call.shape.conv_parts();
  int64_t first = 0;  // channel of the part
  size_t part = 0;
  for (int64_t n; index >= (n = ceil_div(widths[part], kChannels)); ++part) {
    index -= n;
    first += widths[part];
  }
  const int64_t within = index * kChannels, width = widths[part];
  return {first + within, std::min(kChannels, width - within), call.out[part] + within, width};
}

void RecurrentCpu::convolve(const CausalConv& call, const RecurrentRun& run, int token,
                            const Channels& channels) const {
  assert(is_valid(run, call.memory));
  const RawRows rows{call, run, channels.first};
  std::array<const float*, kMaxTaps> window;
  for (int tap = 0; tap < call.shape.n_taps; ++tap) {
    window[static_cast<size_t>(tap)] = rows.row(token - rows.n_history() + tap);
  }
  kernels_.convolve({.rows = window.data(),
                     .taps = call.taps + channels.first,
                     .taps_stride = call.shape.conv_dim(),
                     .n_taps = call.shape.n_taps,
                     .n = channels.n,
                     .out = channels.out + (run.first_token + token) * channels.out_stride,
                     .bias = call.bias == nullptr ? nullptr : call.bias + channels.first,
                     .silu = call.silu});
}

/// Writes the copies, the tail and the logged rows of n <= kChannels channels.
void RecurrentCpu::keep_rows(const CausalConv& call, const RecurrentRun& run, int64_t first_channel,
                             int64_t n) {
  const RawRows rows{call, run, first_channel};
  // Makes a tail of the rows before token t.
  const auto write_tail = [&](int t, float* tail) {
    for (int i = 0; i < rows.n_history(); ++i) {
      const float* const row = rows.row(t - rows.n_history() + i);
      float* const to = tail + i * call.shape.conv_dim() + first_channel;
      if (row != to) std::copy_n(row, n, to);
    }
  };
  for_each_copy(call.copies, run, [&](const RecurrentCopy& copy) {
    write_tail(copy.after_token + 1 - run.first_token, copy.out);
  });
  // A row of the tail is replaced by a later one, so ascending order reads each row before it is replaced.
  // The log is read before it is written.
  write_tail(n_certain(run), call.memory.tail(call.shape, run.slot));
  for (int i = 0; i < run.n_uncertain; ++i) std::copy_n(rows.row(n_certain(run) + i), n, rows.logged_row(i));
}

// ---- the gates, the delta rule and the scan --------------------------------------------------------------

void RecurrentCpu::delta_gates(const DeltaGates& call) {
  constexpr int64_t kGateWork = 64;  // multiply-adds of a head's two gates
  const int64_t n = call.n_v_heads;
  const int64_t grain = std::max<int64_t>(1, kPieceWork / (kGateWork * std::max<int64_t>(1, n)));
  pool_.for_each_piece(call.n_tokens, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      const float* const logits = call.beta_logits == nullptr ? nullptr : call.beta_logits + t * n;
      kernels_.delta_gates(call.alpha + t * n, logits, call.dt, call.a, n, call.decay + t * n,
                           call.beta + t * n);
    }
  });
}

void RecurrentCpu::gated_delta(const GatedDelta& call) { compute_runs(call, nullptr); }

void RecurrentCpu::selective_scan(const SelectiveScan& call) { compute_runs(call.state, call.skip); }

void RecurrentCpu::compute_runs(const GatedDelta& call, const float* skip) {
  const RecurrentShape& shape = call.shape;
  assert(shape.group_floats() <= draft_floats_);
  const int64_t n_groups = int64_t{shape.n_v_heads} * shape.n_column_groups();
  const int64_t n_items = static_cast<int64_t>(call.runs.size()) * n_groups;
  int most_tokens = 1;
  for (const RecurrentRun& run : call.runs)
    most_tokens = std::max(most_tokens, run.n_tokens + run.n_replayed);
  // A thread takes the groups of a whole head, which read the same keys and queries, if that leaves at least
  // four pieces for each thread.
  const int64_t shared = std::min<int64_t>(shape.n_column_groups(), n_items / (4 * pool_.n_threads()));
  const int64_t grain = std::max({int64_t{1}, shared, kPieceWork / (4 * shape.group_floats() * most_tokens)});
  pool_.for_each_piece(n_items, grain, [&](int64_t begin, int64_t end, int thread) {
    for (const RecurrentRun& run : call.runs) {
      const Groups groups{std::max<int64_t>(begin, 0), std::min(end, n_groups)};
      if (groups.first < groups.end)
        advance(call, skip, run, groups, draft_states_.data() + thread * draft_floats_);
      begin -= n_groups;
      end -= n_groups;
    }
  });
  // These parts of the log belong to several groups of columns, which read the previous drafts from it. So
  // they are written when all groups are done.
  for (const RecurrentRun& run : call.runs) {
    for (int i = 0; i < run.n_uncertain; ++i) {
      const int64_t t = run.first_token + n_certain(run) + i;
      float* const logged = call.memory.logged(shape, run.slot, i);
      std::copy_n(call.k + t * shape.key_dim(), shape.key_dim(), logged);
      std::copy_n(call.decay + t * shape.decay_dim(), shape.decay_dim(),
                  logged + shape.key_dim() + shape.value_dim());
    }
  }
}

/// Computes all tokens of a run for some groups of columns.
void RecurrentCpu::advance(const GatedDelta& call, const float* skip, const RecurrentRun& run, Groups groups,
                           float* draft_state) const {
  assert(is_valid(run, call.memory));
  const int64_t n_floats = call.shape.group_floats();
  float* const states = call.memory.state(call.shape, run.slot);
  for (int64_t g = groups.first; g < groups.end; ++g) begin(call, run, g, states + g * n_floats);
  int done = 0;
  const auto compute_until = [&](int end) {
    while (done < end) {
      const int n = std::min(kTokensAtOnce, end - done);
      for (int64_t g = groups.first; g < groups.end; ++g) {
        compute(call, skip, run.first_token + done, n, g, states + g * n_floats, nullptr);
      }
      done += n;
    }
  };
  for_each_copy(call.copies, run, [&](const RecurrentCopy& copy) {
    compute_until(copy.after_token + 1 - run.first_token);
    std::copy(states + groups.first * n_floats, states + groups.end * n_floats,
              copy.out + groups.first * n_floats);
  });
  compute_until(n_certain(run));
  if (run.n_uncertain == 0) return;
  for (int64_t g = groups.first; g < groups.end; ++g) {
    std::copy_n(states + g * n_floats, n_floats, draft_state);
    compute(call, skip, run.first_token + done, run.n_uncertain, g, draft_state,
            call.memory.logged(call.shape, run.slot, 0));
  }
}

/// Brings the state of a group of columns to the run's first token.
void RecurrentCpu::begin(const GatedDelta& call, const RecurrentRun& run, int64_t group, float* state) const {
  const RecurrentShape& shape = call.shape;
  if (run.fresh) std::fill_n(state, shape.group_floats(), 0.0f);
  if (run.n_replayed == 0) return;
  const int head = static_cast<int>(group / shape.n_column_groups());
  const int column = static_cast<int>(group % shape.n_column_groups()) * RecurrentShape::kColumns;
  const float* const logged = call.memory.logged(shape, run.slot, 0);
  const float* const deltas = logged + shape.key_dim();
  kernels_.delta_replay({.state = state,
                         .k = logged + int64_t{shape.key_head(head)} * shape.n_rows(),
                         .deltas = deltas + int64_t{head} * shape.head_dim + column,
                         .decay = deltas + shape.value_dim() + head * shape.decay_dim() / shape.n_v_heads,
                         .stride = shape.log_floats(),
                         .n_tokens = run.n_replayed,
                         .n_rows = shape.n_rows(),
                         .n_columns = std::min(RecurrentShape::kColumns, shape.head_dim - column),
                         .row_decays = shape.row_decays});
}

/// Computes tokens of the step for a group of columns. logged: the log entry of the sequence's first draft,
/// where these tokens are logged; null if they are not logged.
void RecurrentCpu::compute(const GatedDelta& call, const float* skip, int64_t first_token, int n_tokens,
                           int64_t group, float* state, float* logged) const {
  const RecurrentShape& shape = call.shape;
  const int head = static_cast<int>(group / shape.n_column_groups());
  const int column = static_cast<int>(group % shape.n_column_groups()) * RecurrentShape::kColumns;
  const int64_t keys = first_token * shape.key_dim() + int64_t{shape.key_head(head)} * shape.n_rows();
  const int64_t values = int64_t{head} * shape.head_dim + column;
  const int64_t gates = first_token * shape.n_v_heads + head;
  const auto tokens = skip == nullptr ? kernels_.delta_tokens : kernels_.scan_tokens;
  tokens({.state = state,
          .q = call.q + keys,
          .k = call.k + keys,
          .v = call.v + first_token * shape.value_dim() + values,
          .decay = call.decay + first_token * shape.decay_dim() + head * shape.decay_dim() / shape.n_v_heads,
          .beta = call.beta + gates,
          .skip = skip == nullptr ? 0.0f : skip[head],
          .out = call.out + first_token * shape.value_dim() + values,
          .deltas = logged == nullptr ? nullptr : logged + shape.key_dim() + values,
          .key_stride = shape.key_dim(),
          .value_stride = shape.value_dim(),
          .gate_stride = shape.n_v_heads,
          .delta_stride = shape.log_floats(),
          .n_tokens = n_tokens,
          .n_rows = shape.n_rows(),
          .n_columns = std::min(RecurrentShape::kColumns, shape.head_dim - column),
          .decay_stride = shape.decay_dim(),
          .row_decays = shape.row_decays});
}

}  // namespace hearth
