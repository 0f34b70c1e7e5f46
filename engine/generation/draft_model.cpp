// See the header.
#include "engine/generation/draft_model.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <stdexcept>
#include <string>

#include "engine/serving/sequence.h"

namespace hearth {
namespace {

// A fully accepted draft leaves two tokens missing from the draft model's cache, and a few steps without
// drafts leave a few more. Computing a few missing tokens together with the first draft token takes hardly
// longer than computing that token alone.
constexpr int kMostMissing = 8;

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

DraftModel::DraftModel(ForwardModel& model, int n_slots, int n_vocab, int context_tokens)
    : model_(model),
      limits_(model.limits()),
      context_tokens_(context_tokens),
      most_missing_(std::min(kMostMissing, limits_.max_tokens / n_slots)),
      sampler_(n_vocab),
      blocks_(limits_, n_slots),
      texts_(static_cast<size_t>(n_slots)),
      n_reached_(static_cast<size_t>(n_slots)) {
  if (limits_.recurrent) {
    throw std::invalid_argument(
        "the draft model has recurrent layers, whose states cannot return to an earlier token after a "
        "rejected draft");
  }
  if (blocks_.max_positions() < context_tokens || most_missing_ < 1 || blocks_.max_step() < most_missing_ ||
      limits_.max_logit_rows < n_slots) {
    throw std::invalid_argument("the draft model has no room for " + std::to_string(n_slots) + " slots of " +
                                std::to_string(context_tokens) + " tokens");
  }
  blocks_.set_tables(batch_);
  for (std::vector<int32_t>& text : texts_) text.reserve(static_cast<size_t>(context_tokens));
}

/// Returns how many of the sequence's first tokens are in the slot's cache. Returns 0 if the slot's text
/// cannot be truncated to these tokens and continued (FixedBlocks::can_go_on()).
int DraftModel::n_shared(const Sequence& sequence, int slot) const {
  const std::vector<int32_t>& text = texts_[static_cast<size_t>(slot)];
  const auto n = static_cast<int>(std::ranges::mismatch(text, sequence.tokens).in1 - text.begin());
  // If all tokens are cached, the last one is still computed again because its logits are needed.
  const int n_reached = n_reached_[static_cast<size_t>(slot)];
  return blocks_.can_go_on(n_reached, n) && blocks_.can_go_on(n_reached, std::max(0, n - 1)) ? n : 0;
}

std::optional<int> DraftModel::n_missing(const Sequence& sequence, int slot) const {
  const int n_tokens = static_cast<int>(sequence.tokens.size());
  if (n_tokens > context_tokens_) return std::nullopt;
  // Even if the last token is cached, it is computed again because its logits are needed.
  const int n_known = std::min(n_shared(sequence, slot), n_tokens - 1);
  for (int at = n_known; at < n_tokens; ++at) {
    if (sequence.tokens[static_cast<size_t>(at)] >= limits_.n_vocab) return std::nullopt;
  }
  return n_tokens - n_known;
}

// Truncates the slot's text to its first n_tokens.
void DraftModel::cut(int slot, int n_tokens) {
  texts_[static_cast<size_t>(slot)].resize(static_cast<size_t>(n_tokens));
  if (n_tokens == 0) n_reached_[static_cast<size_t>(slot)] = 0;
}

// Appends a token to the slot's text and to the batch.
void DraftModel::append(int slot, int32_t token) {
  std::vector<int32_t>& text = texts_[static_cast<size_t>(slot)];
  batch_.tokens.push_back(token);
  batch_.positions.push_back(static_cast<int32_t>(text.size()));
  batch_.slots.push_back(slot);
  text.push_back(token);
  int& n_reached = n_reached_[static_cast<size_t>(slot)];
  n_reached = std::max(n_reached, static_cast<int>(text.size()));
}

void DraftModel::read(const Sequence& sequence, int slot, int n) {
  assert(n > 0 && n <= most_read());
  const int first = n_shared(sequence, slot);
  cut(slot, first);
  batch_.clear();
  for (int at = first; at < first + n; ++at) append(slot, sequence.tokens[static_cast<size_t>(at)]);
  model_.forward(batch_);
}

std::span<const DraftPassTime> DraftModel::draft(std::span<const DraftJob> jobs) {
  std::vector<Drafting> running(jobs.begin(), jobs.end());
  passes_.clear();
  for (;;) {
    // 1. Compute the missing tokens of each sequence. In later rounds, only the token that was just drafted
    //    is missing.
    const auto begin = std::chrono::steady_clock::now();
    batch_.clear();
    for (Drafting& one : running) {
      const std::vector<int32_t>& tokens = one.job.sequence->tokens;
      std::vector<int32_t>& text = texts_[static_cast<size_t>(one.job.slot)];
      if (!one.job.draft->empty()) {
        append(one.job.slot, one.job.draft->back());
      } else {
        cut(one.job.slot,
            std::min(n_shared(*one.job.sequence, one.job.slot), static_cast<int>(tokens.size()) - 1));
        while (text.size() < tokens.size()) append(one.job.slot, tokens[text.size()]);
      }
      batch_.logit_rows.push_back(batch_.n_tokens() - 1);
    }
    if (running.empty()) return passes_;
    // 2. Sample the next token of each.
    const StepOutput output = model_.forward(batch_);
    const auto n_cols = static_cast<size_t>(limits_.n_vocab);
    for (size_t i = 0; i < running.size(); ++i)
      running[i].done = !sample(running[i], output.logits.subspan(i * n_cols, n_cols));
    std::erase_if(running, [](const Drafting& one) { return one.done; });
    passes_.push_back({.n_tokens = batch_.n_tokens(), .seconds = seconds_since(begin)});
  }
}

// Chooses the next token by the engine's rules. Returns whether another token may follow.
bool DraftModel::sample(Drafting& drafting, std::span<const float> row) {
  const std::vector<int32_t>& text = texts_[static_cast<size_t>(drafting.job.slot)];
  if (!sampler_.append(drafting, text, row)) return false;
  const std::vector<int32_t>& draft = *drafting.job.draft;
  return static_cast<int>(draft.size()) < drafting.job.n_wanted && draft.back() < limits_.n_vocab &&
         static_cast<int>(text.size()) < context_tokens_;
}

}  // namespace hearth
