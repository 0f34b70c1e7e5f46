// See the header.
#include "server/runtime_facts.h"

#include <utility>

#include "engine/residency/plan.h"

namespace hearth {

EngineOptions engine_for(const ModelRuntime& runtime, int n_slots, int queue_capacity) {
  const LoadedModel& facts = runtime.facts();
  EngineOptions engine;
  engine.n_slots = n_slots;
  engine.context_tokens = facts.context_tokens;
  engine.queue_capacity = queue_capacity;
  engine.prefill_chunk = facts.prompt_step.tokens;
  engine.prefill_beside = facts.prompt_step.beside_streams;
  return engine;
}

EmbeddingTarget target_of(const ModelRuntime& runtime, TokenGenerator& engine, std::vector<std::string> names,
                          int64_t created) {
  const LoadedModel& facts = runtime.facts();
  const Plan* plan = runtime.placed().plan;
  EmbeddingTarget target;
  target.names = std::move(names);
  target.created = created;
  target.context_tokens = facts.context_tokens;
  target.n_dimensions = facts.spec.d_model;
  target.pooling = facts.spec.pooling;
  target.looks_ahead = facts.spec.arch.looks_ahead;
  target.n_scores = facts.spec.n_scores;
  target.n_separators = facts.spec.n_separators;
  if (target.ranks() && !target.looks_ahead)
    target.rank_template = facts.file.find_string("tokenizer.chat_template.rerank").value_or("");
  target.facts = read_model_file_facts(facts.file, facts.spec);
  target.facts.device_bytes = plan != nullptr ? static_cast<int64_t>(plan->device.total()) : 0;
  target.device = runtime.placed().backend;
  target.tokenizer = &facts.tokenizer;
  target.engine = &engine;
  return target;
}

uint64_t reserved_bytes(const ModelRuntime& runtime) {
  const PlacedModel& placed = runtime.placed();
  return placed.kv_bytes + placed.state_bytes + placed.work_bytes + placed.neuron_bytes;
}

}  // namespace hearth
