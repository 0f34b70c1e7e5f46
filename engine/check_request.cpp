// Checks options and requests.
#include "engine/check_request.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

#include "engine/constraint/thinking_budget.h"

namespace hearth {
namespace {

void require(bool holds, const std::string& what) {
  if (!holds) throw std::invalid_argument(what);
}

void check_sampling(const SamplingParams& sampling, int n_vocab) {
  require(std::isfinite(sampling.temperature) && sampling.temperature >= 0,
          "temperature must be a number >= 0");
  require(sampling.top_k >= 0, "top_k must be >= 0");
  require(sampling.top_p > 0 && sampling.top_p <= 1, "top_p must be in (0, 1]");
  require(sampling.min_p >= 0 && sampling.min_p < 1, "min_p must be in [0, 1)");
  require(std::isfinite(sampling.repetition_penalty) && sampling.repetition_penalty > 0,
          "repetition_penalty must be a number > 0");
  require(sampling.repetition_last_n >= -1, "repetition_last_n must be -1 or more");
  require(std::isfinite(sampling.presence_penalty), "presence_penalty must be a number");
  require(std::isfinite(sampling.frequency_penalty), "frequency_penalty must be a number");
  require(sampling.typical_p > 0 && sampling.typical_p <= 1, "typical_p must be in (0, 1]");
  require(sampling.xtc_probability >= 0 && sampling.xtc_probability <= 1,
          "xtc_probability must be in [0, 1]");
  require(sampling.xtc_threshold >= 0 && sampling.xtc_threshold <= 1, "xtc_threshold must be in [0, 1]");
  require(std::isfinite(sampling.dynatemp_range) && sampling.dynatemp_range >= 0,
          "dynatemp_range must be a number >= 0");
  require(std::isfinite(sampling.dynatemp_exponent) && sampling.dynatemp_exponent > 0,
          "dynatemp_exponent must be a number > 0");
  require(std::isfinite(sampling.mirostat_tau) && sampling.mirostat_tau >= 0,
          "mirostat_tau must be a number >= 0");
  require(sampling.mirostat_eta >= 0 && sampling.mirostat_eta <= 1, "mirostat_eta must be in [0, 1]");
  const DryParams& dry = sampling.dry;
  require(std::isfinite(dry.multiplier) && dry.multiplier >= 0, "dry.multiplier must be a number >= 0");
  require(std::isfinite(dry.base) && dry.base >= 1, "dry.base must be a number >= 1");
  require(dry.allowed_length >= 0 && dry.last_n >= -1,
          "dry.allowed_length must be >= 0 and dry.last_n >= -1");
  for (const auto& [token, bias] : sampling.logit_bias) {
    require(token >= 0 && token < n_vocab, "logit_bias names token " + std::to_string(token) +
                                               ", the vocabulary has 0 to " + std::to_string(n_vocab - 1));
    require(std::isfinite(bias), "logit_bias of token " + std::to_string(token) + " must be a number");
  }
}

void check_thinking(const ThinkingBudget* budget, int n_vocab) {
  if (budget == nullptr) return;
  require(budget->trie != nullptr && !budget->open.empty(),
          "a limit on thinking needs tags and their tokens");
  require(budget->ending_closes(), "a limit on thinking needs tokens that end it");
  for (const int32_t token : budget->ending)
    require(token >= 0 && token < n_vocab, "the end of thinking holds a token outside the vocabulary");
}

}  // namespace

StepLimits checked_limits(const StepLimits& limits, const EngineOptions& options) {
  const auto number = [](int value) { return std::to_string(value); };
  require(options.n_slots > 0, "slots must be > 0, got " + number(options.n_slots));
  require(options.context_tokens > 0, "context must be > 0, got " + number(options.context_tokens));
  require(options.queue_capacity >= 0, "queue must be >= 0, got " + number(options.queue_capacity));
  require(options.prefill_chunk > 0, "prefill chunk must be > 0, got " + number(options.prefill_chunk));
  require(options.promise_tokens > 0,
          "a promise of KV blocks must be for tokens > 0, got " + number(options.promise_tokens));
  require(limits.n_vocab > 0 && limits.block_tokens > 0,
          "the model's vocabulary and KV blocks must not be empty");
  require(limits.max_tokens >= options.n_slots, "a step takes " + number(limits.max_tokens) +
                                                    " tokens, fewer than " + number(options.n_slots) +
                                                    " slots");
  require(limits.max_logit_rows >= options.n_slots, "a step gives " + number(limits.max_logit_rows) +
                                                        " rows of logits, fewer than " +
                                                        number(options.n_slots) + " slots");
  require(static_cast<int64_t>(limits.n_blocks) * limits.block_tokens >= options.context_tokens,
          "the KV cache has " + number(limits.n_blocks) + " blocks of " + number(limits.block_tokens) +
              " positions, fewer than one sequence of " + number(options.context_tokens) + " tokens needs");
  require(!limits.encodes || limits.max_tokens >= options.context_tokens,
          "a step takes " + number(limits.max_tokens) + " tokens, fewer than a whole sequence of " +
              number(options.context_tokens) + " that an encoder must see");
  if (!limits.window) return limits;
  const int at_once =
      std::min((options.context_tokens + limits.block_tokens - 1) / limits.block_tokens,
               blocks_at_once(limits.window.n_positions, step_tokens(limits, options), limits.block_tokens));
  require(limits.window.n_blocks >= at_once,
          "the KV cache has " + number(limits.window.n_blocks) + " blocks of " + number(limits.block_tokens) +
              " positions for layers with a window of " + number(limits.window.n_positions) +
              " tokens, fewer than the " + number(at_once) + " that one sequence needs in steps of " +
              number(options.prefill_chunk) + " prompt tokens");
  return limits;
}

int step_tokens(const StepLimits& limits, const EngineOptions& options) {
  return std::min(limits.max_tokens, longest_step(options.prefill_chunk));
}

void check_request(const GenerationRequest& request, const StepLimits& limits) {
  const int n_vocab = limits.n_vocab;
  require(!request.sequences.empty(), "a request must have at least one sequence");
  for (const SequenceRequest& sequence : request.sequences) {
    require(!sequence.prompt.empty(), "a prompt must have at least one token");
    require(sequence.max_tokens >= 0, "max_tokens must be >= 0");
    require(sequence.min_tokens >= 0, "min_tokens must be >= 0");
    require(sequence.n_top_logprobs >= -1, "n_top_logprobs must be >= -1");
    require(!sequence.embedding ||
                (sequence.max_tokens == 0 && !sequence.constraint && !sequence.prompt_logprobs),
            "a sequence that is embedded generates and scores nothing");
    require(limits.generates || sequence.embedding,
            "the model only embeds or ranks texts and cannot generate any");
    require(sequence.second_text >= 0 && sequence.second_text <= static_cast<int>(sequence.prompt.size()),
            "the second text of a pair must begin within the prompt");
    for (const int32_t token : sequence.prompt) {
      require(token >= 0 && token < n_vocab, "the prompt holds token " + std::to_string(token) +
                                                 ", the vocabulary has 0 to " + std::to_string(n_vocab - 1));
    }
    check_thinking(sequence.thinking.get(), n_vocab);
    check_sampling(sequence.sampling, n_vocab);
  }
}

std::vector<std::unique_ptr<Sequence>> make_sequences(GenerationRequest request, uint64_t request_id,
                                                      const std::shared_ptr<TokenStream>& stream) {
  const std::chrono::steady_clock::time_point now = std::chrono::steady_clock::now();
  std::vector<std::unique_ptr<Sequence>> sequences;
  sequences.reserve(request.sequences.size());
  for (SequenceRequest& from : request.sequences) {
    auto sequence = std::make_unique<Sequence>();
    sequence->request_id = request_id;
    sequence->client = request.client;
    sequence->priority = request.priority;
    sequence->deadline = request.deadline;
    sequence->index = static_cast<int>(sequences.size());
    sequence->stream = stream;
    sequence->tokens = std::move(from.prompt);
    sequence->n_prompt = static_cast<int>(sequence->tokens.size());
    sequence->request = std::move(from);
    if (sequence->request.constraint) sequence->constraint.emplace(sequence->request.constraint);
    if (sequence->request.thinking) sequence->thinking.emplace(sequence->request.thinking);
    sequence->accepted_at = now;
    const auto twin = std::ranges::find_if(sequences, [&](const std::unique_ptr<Sequence>& other) {
      return other->prompt_group == other->index && other->tokens == sequence->tokens;
    });
    sequence->prompt_group = twin == sequences.end() ? sequence->index : (*twin)->index;
    sequences.push_back(std::move(sequence));
  }
  return sequences;
}

}  // namespace hearth
