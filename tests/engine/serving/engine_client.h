// A client for tests of the engine: makes requests from seeds, reads whole answers, and computes the scripted
// model's answers without an engine.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/engine.h"

namespace hearth {

/// Returns n tokens of ScriptedModel's default vocabulary (97 tokens); equal seeds give equal tokens.
std::vector<int32_t> some_tokens(int n, uint64_t seed);

SequenceRequest greedy(std::vector<int32_t> prompt, int max_tokens);
SequenceRequest sampled(std::vector<int32_t> prompt, int max_tokens, uint64_t seed);
/// Returns a greedy request with max_tokens 0 and prompt_logprobs.
SequenceRequest scored(std::vector<int32_t> prompt, int n_top);

/// Returns the n tokens that greedy decoding appends under ScriptedModel::hashed(), computed without an
/// engine.
std::vector<int32_t> continuation(std::vector<int32_t> prompt, int n);

/// A request to embed a text.
SequenceRequest embedding(std::vector<int32_t> prompt, Pooling pooling);

/// All events of one sequence.
struct Answer {
  std::vector<TokenEvent> prompt;  // log-probabilities of prompt tokens
  std::vector<TokenEvent> events;  // log-probabilities of generated tokens
  std::vector<int32_t> tokens;     // the generated tokens
  std::vector<float> embedding;    // the vector of an embedded sequence
  FinishedEvent finished;
};

/// All numbers of an answer that a client can see.
std::vector<float> numbers_of(const Answer& answer);

/// Reads a stream to its end. Throws std::runtime_error if nothing comes for 60 seconds, or if anything
/// follows the last event of a sequence.
std::vector<Answer> read_all(TokenStream& stream, int n_sequences);

/// Submits the request; throws std::runtime_error with the refusal's name if it is refused.
std::shared_ptr<TokenStream> submit(Engine& engine, GenerationRequest request);
std::shared_ptr<TokenStream> submit(Engine& engine, SequenceRequest sequence);

/// Submits one sequence and reads its answer.
Answer ask(Engine& engine, SequenceRequest sequence);

/// Returns the refusal. Throws std::runtime_error if the request was accepted.
Refusal refusal_of(Engine& engine, GenerationRequest request);

}  // namespace hearth
