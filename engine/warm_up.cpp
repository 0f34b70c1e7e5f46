// See the header.
#include "engine/warm_up.h"

#include <algorithm>

#include "engine/serving/fixed_blocks.h"

namespace hearth {
namespace {

// Enough for the kernels of prompts, few enough for a model that computes a few prompt tokens a second.
constexpr int kPromptTokens = 8;

}  // namespace

void warm_up(ForwardModel& model) {
  const StepLimits limits = model.limits();
  const FixedBlocks blocks(limits, 1);
  model.bind_thread();
  Batch batch;
  blocks.set_tables(batch);
  const int n_prompt =
      std::min({kPromptTokens, limits.max_tokens, blocks.max_step(), blocks.max_positions() - 1});
  int position = 0;
  for (const int n_tokens : {n_prompt, 1}) {
    batch.clear();
    for (int i = 0; i < n_tokens; ++i, ++position) {
      batch.tokens.push_back(std::min(i, limits.n_vocab - 1));
      batch.positions.push_back(position);
      batch.slots.push_back(0);
      if (position < n_prompt) batch.prompt_rows.push_back(i);
    }
    (limits.encodes ? batch.hidden_rows : batch.logit_rows).push_back(n_tokens - 1);
    model.forward(batch);
    if (limits.encodes) return;  // a sequence is one step
  }
}

}  // namespace hearth
