// See the header.
#include "engine/activity/expert_recorder.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <tuple>
#include <utility>

namespace hearth {

ExpertRecorder::ExpertRecorder(const Shape& shape)
    : layers_(shape.layers), n_used_(shape.n_used), max_tokens_(static_cast<size_t>(shape.max_tokens)) {
  assert(!layers_.empty() && n_used_ > 0);
  tokens_.reserve(max_tokens_);
  experts_.reserve(max_tokens_ * token_experts());  // pages that are never written take no memory
}

ExpertRecorder::StepScope::StepScope(ExpertRecorder* recorder, const Batch& batch) : recorder_(recorder) {
  if (recorder_ == nullptr) return;
  recorder_->mutex_.lock();
  recorder_->begin(batch);
}

ExpertRecorder::StepScope::~StepScope() {
  if (recorder_ == nullptr) return;
  recorder_->end();
  recorder_->mutex_.unlock();
}

/// Appends the step's tokens, with room for their experts.
void ExpertRecorder::begin(const Batch& batch) {
  const size_t n = batch.tokens.size();
  first_token_ = tokens_.size();
  n_layers_added_ = 0;
  if (n > max_tokens_ - tokens_.size()) full_.store(true, std::memory_order_relaxed);
  records_step_ = !full();
  if (!records_step_) return;
  size_t next_prompt_row = 0;
  for (size_t t = 0; t < n; ++t) {
    const bool in_prompt = next_prompt_row < batch.prompt_rows.size() &&
                           batch.prompt_rows[next_prompt_row] == static_cast<int32_t>(t);
    if (in_prompt) ++next_prompt_row;
    tokens_.push_back({batch.sequences.empty() ? static_cast<uint64_t>(batch.slots[t]) : batch.sequences[t],
                       batch.positions[t], in_prompt ? TraceText::kPrompt : TraceText::kGenerated});
  }
  experts_.resize(tokens_.size() * token_experts());
}

/// Removes the step's tokens unless all layers were added.
void ExpertRecorder::end() {
  if (!std::exchange(records_step_, false) || n_layers_added_ == layers_.size()) return;
  left_out_ = true;
  tokens_.resize(first_token_);
  experts_.resize(first_token_ * token_experts());
}

void ExpertRecorder::add(int layer, const ExpertChoice& choice) {
  assert(records_step_ && choice.n_used == n_used_ &&
         static_cast<size_t>(choice.n_tokens) == tokens_.size() - first_token_);
  const auto found = std::ranges::lower_bound(layers_, layer, {}, &TracedLayer::number);
  assert(found != layers_.end() && found->number == layer);
  ++n_layers_added_;
  const auto n_used = static_cast<size_t>(n_used_);
  uint16_t* out = experts_.data() + first_token_ * token_experts() +
                  static_cast<size_t>(found - layers_.begin()) * n_used;
  for (int t = 0; t < choice.n_tokens; ++t, out += token_experts()) {
    std::transform(choice.experts + t * n_used_, choice.experts + (t + 1) * n_used_, out,
                   [](int32_t expert) { return static_cast<uint16_t>(expert); });
  }
}

void ExpertRecorder::reject(uint64_t sequence, int n_tokens) {
  const std::lock_guard lock(mutex_);
  const auto is_other = [sequence](const Token& token) { return token.sequence != sequence; };
  // The tokens of a sequence are adjacent in a step.
  const auto begin =
      std::find_if_not(tokens_.begin() + static_cast<ptrdiff_t>(first_token_), tokens_.end(), is_other);
  const auto end = std::find_if(begin, tokens_.end(), is_other);
  if (begin == end) return;  // the step was not recorded
  assert(n_tokens <= end - begin);
  const auto per_token = static_cast<ptrdiff_t>(token_experts());
  const auto at = experts_.begin() + (end - tokens_.begin()) * per_token;
  experts_.erase(at - n_tokens * per_token, at);
  tokens_.erase(end - n_tokens, end);
}

bool ExpertRecorder::take(ExpertTraceWriter& trace) {
  const std::lock_guard lock(mutex_);
  add_sequences(tokens_, experts_, trace);
  tokens_.clear();
  experts_.clear();
  first_token_ = 0;
  const bool was_full = full_.exchange(false, std::memory_order_relaxed);
  return !std::exchange(left_out_, false) && !was_full;
}

void ExpertRecorder::copy(ExpertTraceWriter& trace) {
  std::span<const Token> tokens;
  std::span<const uint16_t> experts;
  {
    const std::lock_guard lock(mutex_);
    tokens = std::span(tokens_).first(first_token_);
    experts = std::span(experts_).first(first_token_ * token_experts());
  }
  add_sequences(tokens, experts, trace);
}

void ExpertRecorder::add_sequences(std::span<const Token> tokens, std::span<const uint16_t> experts,
                                   ExpertTraceWriter& trace) const {
  std::vector<uint32_t> order(tokens.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto place = [&tokens](uint32_t t) { return std::tuple(tokens[t].sequence, tokens[t].position); };
  std::ranges::stable_sort(order, {}, place);
  const auto same = [&place](uint32_t a, uint32_t b) { return place(a) == place(b); };
  order.erase(std::unique(order.begin(), order.end(), same), order.end());  // keeps the first of equal ones
  std::vector<uint16_t> run;
  bool begins = true;
  for (size_t i = 0; i < order.size(); ++i) {
    const Token& token = tokens[order[i]];
    const std::span<const uint16_t> chosen = experts.subspan(order[i] * token_experts(), token_experts());
    run.insert(run.end(), chosen.begin(), chosen.end());
    const Token* const next = i + 1 < order.size() ? &tokens[order[i + 1]] : nullptr;
    const bool ends = next == nullptr || next->sequence != token.sequence;
    if (!ends && next->text == token.text) continue;
    trace.add(token.text, begins, run);
    run.clear();
    begins = ends;
  }
}

}  // namespace hearth
