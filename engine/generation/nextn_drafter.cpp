// See the header.
#include "engine/generation/nextn_drafter.h"

#include <algorithm>
#include <chrono>

#include "engine/serving/sequence.h"

namespace hearth {

NextnDrafter::NextnDrafter(ForwardModel& model, int n_slots)
    : model_(model),
      n_vocab_(static_cast<size_t>(model.limits().n_vocab)),
      most_tokens_(model.limits().most_predicted),
      sampler_(model.limits().n_vocab),
      texts_(static_cast<size_t>(n_slots)) {}

bool NextnDrafter::can_draft(const Sequence& sequence) {
  return !sequence.prefilling() && sequence.n_pending() == 1 && sequence.n_computed > 0;
}

std::span<const DraftPassTime> NextnDrafter::draft(std::span<const DraftJob> jobs, const Batch& tables) {
  std::vector<Drafting> running(jobs.begin(), jobs.end());
  for (const DraftJob& job : jobs) {
    const std::vector<int32_t>& tokens = job.sequence->tokens;
    texts_[static_cast<size_t>(job.slot)].assign(tokens.begin(), tokens.end());
  }
  batch_.block_tables = tables.block_tables;
  batch_.window_tables = tables.window_tables;
  batch_.max_blocks = tables.max_blocks;
  passes_.clear();
  for (bool first = true; !running.empty(); first = false) {
    const auto begin = std::chrono::steady_clock::now();
    // 1. Guess the token after the last one of each text.
    batch_.clear();
    for (const Drafting& one : running) {
      const std::vector<int32_t>& text = texts_[static_cast<size_t>(one.job.slot)];
      batch_.tokens.push_back(text.back());
      batch_.positions.push_back(static_cast<int32_t>(text.size()) - 1);
      batch_.slots.push_back(one.job.slot);
      batch_.sequences.push_back(one.job.sequence->number);
    }
    const std::span<const float> logits = model_.predict(batch_, first);
    // 2. Choose it by the engine's rules.
    for (size_t i = 0; i < running.size(); ++i) {
      Drafting& one = running[i];
      std::vector<int32_t>& text = texts_[static_cast<size_t>(one.job.slot)];
      one.done = !sampler_.append(one, text, logits.subspan(i * n_vocab_, n_vocab_));
      if (one.done) continue;
      text.push_back(one.job.draft->back());
      one.done = static_cast<int>(one.job.draft->size()) == one.job.n_wanted;
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    passes_.push_back({.n_tokens = batch_.n_tokens(), .seconds = took.count()});
    std::erase_if(running, [](const Drafting& one) { return one.done; });
  }
  return passes_;
}

}  // namespace hearth
