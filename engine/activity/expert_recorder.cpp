// See the header.
#include "engine/activity/expert_recorder.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <utility>

namespace hearth {

ExpertRecorder::ExpertRecorder(const Shape& shape)
    : layers_(shape.layers),
      n_used_(shape.n_used),
      max_tokens_(static_cast<size_t>(shape.max_tokens)),
      sequence_(static_cast<size_t>(shape.n_slots)),
      last_position_(static_cast<size_t>(shape.n_slots), -1) {
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
  records_step_ = n <= max_tokens_ - tokens_.size();
  left_out_ = left_out_ || !records_step_;
  if (!records_step_) return;
  first_token_ = tokens_.size();
  n_layers_added_ = 0;
  size_t next_prompt_row = 0;
  for (size_t t = 0; t < n; ++t) {
    const bool in_prompt = next_prompt_row < batch.prompt_rows.size() &&
                           batch.prompt_rows[next_prompt_row] == static_cast<int32_t>(t);
    if (in_prompt) ++next_prompt_row;
    const auto slot = static_cast<size_t>(batch.slots[t]);
    // A generated token may have the position of a rejected draft. A prompt token's position must be one
    // above the sequence's last position.
    const bool follows =
        last_position_[slot] >= 0 && (!in_prompt || batch.positions[t] == last_position_[slot] + 1);
    if (!follows) sequence_[slot] = n_sequences_++;
    last_position_[slot] = batch.positions[t];
    tokens_.push_back({sequence_[slot], in_prompt ? TraceText::kPrompt : TraceText::kGenerated});
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

bool ExpertRecorder::take(ExpertTraceWriter& trace) {
  const std::lock_guard lock(mutex_);
  std::vector<uint32_t> order(tokens_.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, {}, [this](uint32_t t) { return tokens_[t].sequence; });
  std::vector<uint16_t> run;
  for (size_t i = 0; i < order.size(); ++i) {
    const Token& token = tokens_[order[i]];
    const auto first = experts_.begin() + static_cast<ptrdiff_t>(order[i] * token_experts());
    run.insert(run.end(), first, first + static_cast<ptrdiff_t>(token_experts()));
    const Token* const next = i + 1 < order.size() ? &tokens_[order[i + 1]] : nullptr;
    if (next != nullptr && next->sequence == token.sequence && next->text == token.text) continue;
    const size_t begin = i + 1 - run.size() / token_experts();
    const bool begins = begin == 0 || tokens_[order[begin - 1]].sequence != token.sequence;
    trace.add(token.text, begins, run);
    run.clear();
  }
  tokens_.clear();
  experts_.clear();
  std::ranges::fill(last_position_, -1);
  n_sequences_ = 0;
  return !std::exchange(left_out_, false);
}

}  // namespace hearth
