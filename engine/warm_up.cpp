// See the header.
#include "engine/warm_up.h"

#include <algorithm>
#include <vector>

#include "engine/step/fixed_blocks.h"
#include "kernels/compute_device.h"

namespace hearth {
namespace {

// Enough tokens to touch all memory that prompts need on a CPU, but few enough for a model that computes only
// a few prompt tokens per second.
constexpr int kPromptTokens = 8;
// Maximum number of keys for which decode steps are recorded. Most conversations start with fewer tokens. A
// model that decodes five tokens a second takes 2.4 s for these steps.
constexpr int kMostKeys = 1024;
// The GPU records the second step of a shape, not the first.
constexpr int kStepsToRecord = 2;

/// Block tables as large as the Engine's, because recorded steps copy whole tables. Only slot 0 has KV
/// blocks.
struct Tables {
  Tables(const StepLimits& limits, const WarmUp& how) : blocks(limits, 1) {
    Batch batch;
    blocks.set_tables(batch);
    const int needed = (how.context_tokens + limits.block_tokens - 1) / limits.block_tokens;
    max_blocks = std::min(needed, batch.max_blocks);
    const auto fill = [&](std::span<const int32_t> of_slot, std::vector<int32_t>& tables) {
      if (of_slot.empty()) return;
      tables.assign(static_cast<size_t>(how.n_slots) * static_cast<size_t>(max_blocks), -1);
      std::copy_n(of_slot.begin(), max_blocks, tables.begin());
    };
    fill(batch.block_tables, all);
    fill(batch.window_tables, window);
    max_positions = std::min(how.context_tokens, max_blocks * limits.block_tokens);
  }

  FixedBlocks blocks;
  std::vector<int32_t> all, window;
  int max_blocks = 0, max_positions = 0;
};

/// Runs a single sequence.
class WarmSequence {
 public:
  WarmSequence(ForwardModel& model, const WarmUp& how)
      : model_(model), limits_(model.limits()), tables_(limits_, how) {
    batch_.block_tables = tables_.all;
    batch_.window_tables = tables_.window;
    batch_.max_blocks = tables_.max_blocks;
  }

  int max_positions() const { return tables_.max_positions; }
  int max_step() const { return std::min(limits_.max_tokens, tables_.blocks.max_step()); }

  /// Runs a step of n tokens, starting at `position`.
  void run(int position, int n, bool of_prompt) {
    if (limits_.recurrent && position > 0) model_.restore_states(/*slot=*/0, /*snapshot=*/-1, position);
    batch_.clear();
    for (int i = 0; i < n; ++i) {
      batch_.tokens.push_back(std::min(i, limits_.n_vocab - 1));
      batch_.positions.push_back(position + i);
      batch_.slots.push_back(0);
      if (of_prompt) batch_.prompt_rows.push_back(i);
    }
    (limits_.generates ? batch_.logit_rows : batch_.hidden_rows).push_back(n - 1);
    model_.forward(batch_);
  }

  /// Predicts what follows a token at this position.
  void predict(int position) {
    batch_.clear();
    batch_.tokens.push_back(0);
    batch_.positions.push_back(position);
    batch_.slots.push_back(0);
    model_.predict(batch_, /*first=*/true);
  }

 private:
  ForwardModel& model_;
  const StepLimits limits_;
  const Tables tables_;
  Batch batch_;
};

}  // namespace

void warm_up(ForwardModel& model, const WarmUp& how) {
  const StepLimits limits = model.limits();
  WarmSequence sequence(model, how);
  model.bind_thread();
  const int n_prompt = std::min({std::max(kPromptTokens, limits.long_step), sequence.max_step(),
                                 std::max(1, sequence.max_positions() - 1)});
  sequence.run(0, n_prompt, true);
  // Sequences that generate nothing have no other kinds of steps.
  if (!limits.generates || n_prompt >= sequence.max_positions()) return;
  if (limits.long_step == 0) return sequence.run(n_prompt, 1, false);
  // A prompt ends with a short step, for which a GPU uses other kernels.
  sequence.run(0, std::min(kPromptTokens, n_prompt), true);
  const int n_keys = std::min(sequence.max_positions(), std::max(kMostKeys, n_prompt + 1));
  // Decode at the last position of each class of lengths (longest_class()). The KV blocks between the prompt
  // and that position contain zeros.
  for (int longest = longest_class(n_prompt + 1); longest <= longest_class(n_keys); longest *= 2) {
    for (const bool counted : {false, true}) {
      if (counted && !how.count) continue;
      if (how.count) how.count(counted);
      for (int i = 0; i < kStepsToRecord; ++i) sequence.run(std::min(longest, n_keys) - 1, 1, false);
    }
    if (!limits.predicts) continue;
    for (int i = 0; i < kStepsToRecord; ++i) sequence.predict(std::min(longest, n_keys) - 1);
  }
  if (how.count) how.count(false);
}

}  // namespace hearth
