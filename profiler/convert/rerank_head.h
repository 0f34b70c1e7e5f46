// The head of Qwen3-Reranker, a model of plain Qwen 3 that answers yes or no: the scores are the logits of
// these two tokens.
#pragma once

#include <string_view>
#include <vector>

#include "profiler/convert/checkpoint.h"
#include "profiler/convert/config.h"
#include "profiler/convert/family.h"
#include "profiler/convert/tensor_plan.h"

namespace hearth::convert {

/// Whether the checkpoint is such a model. config.json does not say it, so its README or the model's name
/// does. `name` is what the user named the model, or empty.
bool is_qwen3_reranker(const Checkpoint& checkpoint, const Family& family, std::string_view name);

/// Adds the tensor cls.output, the rows of yes and no of the output matrix, the prompt, and the keys of
/// rerankers. The plan points into the checkpoint. Throws std::runtime_error (one sentence) if the vocabulary
/// lacks one of the tokens. REQUIRES: keys has the vocabulary.
void add_rerank_head(const Checkpoint& checkpoint, std::vector<PlannedTensor>& plan, KeyList& keys);

}  // namespace hearth::convert
