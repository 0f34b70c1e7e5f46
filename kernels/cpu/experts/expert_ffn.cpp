// Implements ExpertFfn.
#include "kernels/cpu/experts/expert_ffn.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstring>

namespace hearth {
namespace {

// The fewest floats in a piece of an operation that is not a matrix product. kPieceFloats in cpu_backend.cpp
// gives the reason for this number.
constexpr int64_t kPieceFloats = 4096;
// The number of columns that add_outputs() computes as one piece. It is less than a token has, so that
// several threads can share one token.
constexpr int64_t kOutputCols = 512;

int64_t grain(int64_t floats) { return std::max<int64_t>(1, kPieceFloats / std::max<int64_t>(1, floats)); }

bool is_quantized(const Matrix& weight) { return weight && uses_quantized_activations(weight.dtype); }
bool is_float(const Matrix& weight) { return weight && !uses_quantized_activations(weight.dtype); }

}  // namespace

void ExpertFfn::reserve(const StepBounds& bounds, Backend& memory) {
  const size_t n_experts = static_cast<size_t>(bounds.n_experts);
  const size_t n_pairs = static_cast<size_t>(bounds.max_tokens) * static_cast<size_t>(bounds.n_experts_used);
  const int64_t d_model = bounds.d_model > 0 ? bounds.d_model : bounds.max_cols;
  // Columns are rounded up to whole weight blocks, so that a longer row never takes less memory than a
  // shorter one.
  constexpr int64_t kLargestBlock = 256;
  const auto quantized_bytes = [&](int64_t n_cols) {
    return activation_row_bytes((n_cols + kLargestBlock - 1) / kLargestBlock * kLargestBlock, bits_);
  };
  first_row_.resize(n_experts + 1);
  next_row_.resize(n_experts);
  token_of_row_.resize(n_pairs);
  row_of_pair_.resize(n_pairs);
  chosen_.reserve(n_experts);
  jobs_.reserve(2 * n_experts);
  const size_t model_bytes = static_cast<size_t>(d_model) * sizeof(float);
  const size_t hidden_bytes = static_cast<size_t>(bounds.expert_cols) * sizeof(float);
  quantized_x_ = memory.allocate(n_pairs * quantized_bytes(d_model));
  model_rows_ = memory.allocate(n_pairs * model_bytes);
  hidden_ = memory.allocate(n_pairs * hidden_bytes);
  ups_ = memory.allocate(n_pairs * hidden_bytes);
  quantized_hidden_ = memory.allocate(n_pairs * quantized_bytes(bounds.expert_cols));
  neurons_.reserve(bounds, memory);
}

void ExpertFfn::run(std::span<const Expert> experts, FfnActivation activation, const float* x,
                    const ExpertChoice& choice, float* out, ExpertCounts& counts) {
  if (choice.n_tokens == 0) return;
  const Call call = call_of(experts, activation, x, choice, nullptr);
  compute(call, counts);
  add_outputs(call, out);
}

void ExpertFfn::run_missing(std::span<const Expert> experts, FfnActivation activation, const float* x,
                            const ExpertChoice& choice, const int32_t* slots, float* rows,
                            ExpertCounts& counts) {
  if (choice.n_tokens == 0) return;
  const Call call = call_of(experts, activation, x, choice, slots);
  compute(call, counts);
  copy_rows(call, rows);
}

ExpertFfn::Call ExpertFfn::call_of(std::span<const Expert> experts, FfnActivation activation, const float* x,
                                   const ExpertChoice& choice, const int32_t* slots) const {
  const Expert& any = experts[static_cast<size_t>(choice.experts[0])];
  const Call call{.experts = experts,
                  .activation = activation,
                  .x = x,
                  .choice = choice,
                  .slots = slots,
                  .n_pairs = int64_t{choice.n_tokens} * choice.n_used,
                  .d_model = any.down.n_rows,
                  .d_expert = any.up.n_rows,
                  .gated = static_cast<bool>(any.gate)};
  assert(experts.size() <= next_row_.size());
  assert(static_cast<size_t>(call.n_pairs) <= token_of_row_.size());
  assert(static_cast<size_t>(call.n_pairs * call.d_model) * sizeof(float) <= model_rows_.bytes());
  assert(static_cast<size_t>(call.n_pairs * call.d_expert) * sizeof(float) <= hidden_.bytes());
  return call;
}

/// Computes the outputs of the call's pairs into model_rows_, by row.
void ExpertFfn::compute(const Call& call, ExpertCounts& counts) {
  sort_pairs(call);
  list_chosen(call);
  if (chosen_.empty()) return;
  counts.chosen += n_rows(call);
  counts.read += static_cast<int64_t>(chosen_.size());
  if (call.activation.has_zeros()) counts.neurons += n_rows(call) * call.d_expert;
  fill_inputs(call);
  if (chosen_.front().expert->down_columns) {
    const auto few = std::ranges::partition_point(
        chosen_, [](const ChosenExpert& c) { return c.n_tokens <= ExpertNeurons::kMaxFewTokens; });
    const std::span<const ChosenExpert> many(few, chosen_.end());
    multiply_inputs(call, many);
    neurons_.run({.activation = call.activation,
                  .d_model = call.d_model,
                  .d_expert = call.d_expert,
                  .few = {chosen_.begin(), few},
                  .many = many,
                  .gates = hidden_.floats(),
                  .ups = ups_.floats(),
                  .out = model_rows_.floats()},
                 counts);
  } else {
    multiply_inputs(call, chosen_);
    const int64_t active = activate(call);
    counts.passed += active;
    counts.active += active;
    multiply_hidden(call);
  }
}

/// Assigns a row to every pair to compute, ordered by expert and then by token.
void ExpertFfn::sort_pairs(const Call& call) {
  const size_t n_experts = call.experts.size();
  const size_t n_used = static_cast<size_t>(call.choice.n_used);
  const std::span<const int32_t> choices(call.choice.experts, static_cast<size_t>(call.n_pairs));
  std::fill_n(first_row_.begin(), n_experts + 1, 0);
  for (size_t pair = 0; pair < choices.size(); ++pair) {
    const auto expert = static_cast<size_t>(choices[pair]);
    assert(expert < n_experts);
    if (call.computes(pair)) ++first_row_[expert + 1];
  }
  for (size_t e = 0; e < n_experts; ++e) first_row_[e + 1] += first_row_[e];
  std::copy_n(first_row_.begin(), n_experts, next_row_.begin());
  for (size_t pair = 0; pair < choices.size(); ++pair) {
    row_of_pair_[pair] = -1;
    if (!call.computes(pair)) continue;
    const int32_t row = next_row_[static_cast<size_t>(choices[pair])]++;
    row_of_pair_[pair] = row;
    token_of_row_[static_cast<size_t>(row)] = static_cast<int32_t>(pair / n_used);
  }
}

/// Returns the row of the token's first expert that is computed here, or -1 if none is.
int32_t ExpertFfn::first_row_of(const Call& call, int64_t token) const {
  const int32_t* rows = row_of_pair_.data() + token * call.choice.n_used;
  const int32_t* end = rows + call.choice.n_used;
  const int32_t* first = std::find_if(rows, end, [](int32_t row) { return row >= 0; });
  return first == end ? -1 : *first;
}

/// Fills chosen_. An expert that only one token chose has no copy of its input. It reads the token's row of
/// x, or, if its weights are quantized, the quantized row of the token's first expert.
void ExpertFfn::list_chosen(const Call& call) {
  chosen_.clear();
  for (const bool few : {true, false}) {
    for (size_t e = 0; e < call.experts.size(); ++e) {
      const int n = n_tokens(static_cast<int32_t>(e));
      if (n == 0 || (n <= ExpertNeurons::kMaxFewTokens) != few) continue;
      const int64_t row = first_row(static_cast<int32_t>(e));
      ChosenExpert chosen{.expert = &call.experts[e], .first_row = row, .n_tokens = n};
      if (n == 1) {
        const int64_t token = token_of_row_[static_cast<size_t>(row)];
        chosen.x = call.x + token * call.d_model;
        chosen.quantized = quantized_x(first_row_of(call, token), call.d_model);
      } else {
        chosen.x = model_rows_.floats() + row * call.d_model;
        chosen.quantized = quantized_x(row, call.d_model);
      }
      chosen_.push_back(chosen);
    }
  }
}

/// Quantizes the rows of x if weights are quantized. For experts that several tokens chose, copies the inputs
/// (floats or quantized rows) that the weights need.
void ExpertFfn::fill_inputs(const Call& call) {
  bool any_quantized = false, any_floats = false;
  for (const ChosenExpert& chosen : chosen_) {
    const Expert& expert = *chosen.expert;
    any_quantized |= is_quantized(expert.gate) || is_quantized(expert.up);
    any_floats |= is_float(expert.gate) || is_float(expert.up);
  }
  const int64_t d_model = call.d_model, n_used = call.choice.n_used;
  const size_t quantized_bytes = activation_row_bytes(d_model, bits_);
  pool_.for_each_piece(call.choice.n_tokens, grain(d_model), [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      const float* x = call.x + t * d_model;
      const int32_t* experts = call.choice.experts + t * n_used;
      const int32_t* rows = row_of_pair_.data() + t * n_used;
      const int32_t first_row = first_row_of(call, t);
      if (first_row < 0) continue;
      std::byte* first = quantized_x(first_row, d_model);
      if (any_quantized) matmul_.quantize(x, d_model, first);
      for (int64_t j = 0; j < n_used; ++j) {
        // An expert that only one token chose needs no copy; see list_chosen().
        if (rows[j] < 0 || n_tokens(experts[j]) == 1) continue;
        if (any_quantized && rows[j] != first_row)
          std::memcpy(quantized_x(rows[j], d_model), first, quantized_bytes);
        if (any_floats) std::copy_n(x, d_model, model_rows_.floats() + rows[j] * d_model);
      }
    }
  });
}

/// Computes the gate and up products of these experts. Without gates, up products are written to hidden_.
void ExpertFfn::multiply_inputs(const Call& call, std::span<const ChosenExpert> chosen) {
  const int64_t d_expert = call.d_expert;
  jobs_.clear();
  for (const ChosenExpert& c : chosen) {
    const auto add = [&](const Matrix& weight, const float* bias, Buffer& to) {
      assert(weight.n_rows == d_expert && weight.n_cols == call.d_model);
      jobs_.push_back({.product = {weight, bias, to.floats() + c.first_row * d_expert, d_expert},
                       .x = c.x,
                       .quantized = c.quantized,
                       .n_tokens = c.n_tokens});
    };
    const Expert& expert = *c.expert;
    if (call.gated) add(expert.gate, expert.gate_bias, hidden_);
    add(expert.up, expert.up_bias, call.gated ? ups_ : hidden_);
  }
  products_.run(jobs_);
}

/// Computes hidden = act(gate) * up, and quantizes it if down matrices need that. Returns the number of
/// values that are not zero, or 0 if the activation has no zeros.
int64_t ExpertFfn::activate(const Call& call) {
  const int64_t d_expert = call.d_expert;
  const bool any_quantized = std::ranges::any_of(
      chosen_, [](const ChosenExpert& chosen) { return is_quantized(chosen.expert->down); });
  const bool has_zeros = call.activation.has_zeros();
  std::atomic<int64_t> active{0};
  pool_.for_each_piece(n_rows(call), grain(d_expert), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      float* hidden = hidden_.floats() + row * d_expert;
      const float* up = call.gated ? ups_.floats() + row * d_expert : nullptr;
      vector_.gated_activation(call.activation, hidden, up, d_expert, hidden);
      if (any_quantized) matmul_.quantize(hidden, d_expert, quantized_hidden(row, d_expert));
      if (!has_zeros) continue;
      active += std::count_if(hidden, hidden + d_expert, [](float value) { return value != 0.0f; });
    }
  });
  return active;
}

/// Computes the down products of all chosen experts.
void ExpertFfn::multiply_hidden(const Call& call) {
  const int64_t d_model = call.d_model, d_expert = call.d_expert;
  jobs_.clear();
  for (const ChosenExpert& c : chosen_) {
    const Expert& expert = *c.expert;
    assert(expert.down.n_rows == d_model && expert.down.n_cols == d_expert);
    jobs_.push_back(
        {.product = {expert.down, expert.down_bias, model_rows_.floats() + c.first_row * d_model, d_model},
         .x = hidden_.floats() + c.first_row * d_expert,
         .quantized = quantized_hidden(c.first_row, d_expert),
         .n_tokens = c.n_tokens});
  }
  products_.run(jobs_);
}

/// Adds each token's down products to its row of out.
void ExpertFfn::add_outputs(const Call& call, float* out) {
  const int64_t d_model = call.d_model;
  const int n_used = call.choice.n_used;
  const int64_t parts = (d_model + kOutputCols - 1) / kOutputCols;
  const auto add_part = [&](int64_t token, int64_t column) {
    const WeightedRows rows{.x = model_rows_.floats() + column,
                            .stride = d_model,
                            .ids = row_of_pair_.data() + token * n_used,
                            .weights = call.choice.weights + token * n_used,
                            .n = n_used};
    vector_.add_weighted_rows(rows, std::min(kOutputCols, d_model - column), out + token * d_model + column);
  };
  const int64_t n_parts = call.choice.n_tokens * parts;
  pool_.for_each_piece(n_parts, grain(n_used * kOutputCols), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) add_part(i / parts, i % parts * kOutputCols);
  });
}

/// Copies the outputs of the computed pairs to `rows`, by pair.
void ExpertFfn::copy_rows(const Call& call, float* rows) {
  pool_.for_each_piece(call.n_pairs, grain(call.d_model), [&](int64_t begin, int64_t end, int) {
    for (int64_t pair = begin; pair < end; ++pair) {
      const int64_t row = row_of_pair_[static_cast<size_t>(pair)];
      if (row < 0) continue;
      std::copy_n(model_rows_.floats() + row * call.d_model, call.d_model, rows + pair * call.d_model);
    }
  });
}

std::byte* ExpertFfn::quantized_x(int64_t row, int64_t d_model) const {
  const size_t bytes = activation_row_bytes(d_model, bits_);
  return reinterpret_cast<std::byte*>(quantized_x_.floats()) + static_cast<size_t>(row) * bytes;
}

std::byte* ExpertFfn::quantized_hidden(int64_t row, int64_t d_expert) const {
  const size_t bytes = activation_row_bytes(d_expert, bits_);
  return reinterpret_cast<std::byte*>(quantized_hidden_.floats()) + static_cast<size_t>(row) * bytes;
}

}  // namespace hearth
