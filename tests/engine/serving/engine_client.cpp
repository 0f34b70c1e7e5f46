// Implements the client: makes requests, reads answers, and computes the scripted model's answers.
#include "tests/engine/serving/engine_client.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>

#include "tests/support/scripted_model.h"

namespace hearth {
namespace {

constexpr int kVocab = 97;

}  // namespace

std::vector<int32_t> some_tokens(int n, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int32_t> tokens(static_cast<size_t>(n));
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % kVocab);
  return tokens;
}

SequenceRequest greedy(std::vector<int32_t> prompt, int max_tokens) {
  SequenceRequest sequence;
  sequence.prompt = std::move(prompt);
  sequence.max_tokens = max_tokens;
  sequence.sampling.temperature = 0;
  return sequence;
}

SequenceRequest sampled(std::vector<int32_t> prompt, int max_tokens, uint64_t seed) {
  SequenceRequest sequence = greedy(std::move(prompt), max_tokens);
  sequence.sampling.temperature = 2;
  sequence.sampling.seed = seed;
  return sequence;
}

SequenceRequest scored(std::vector<int32_t> prompt, int n_top) {
  SequenceRequest sequence = greedy(std::move(prompt), 0);
  sequence.prompt_logprobs = true;
  sequence.n_top_logprobs = n_top;
  return sequence;
}

SequenceRequest embedding(std::vector<int32_t> prompt, Pooling pooling) {
  SequenceRequest sequence = greedy(std::move(prompt), 0);
  sequence.embedding = pooling;
  return sequence;
}

std::vector<int32_t> continuation(std::vector<int32_t> prompt, int n) {
  const ScriptedModel::Script script = ScriptedModel::hashed();
  std::vector<float> logits(kVocab);
  std::vector<int32_t> tokens;
  for (int i = 0; i < n; ++i) {
    script(prompt, logits);
    tokens.push_back(static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin()));
    prompt.push_back(tokens.back());
  }
  return tokens;
}

std::vector<float> numbers_of(const Answer& answer) {
  std::vector<float> all = answer.embedding;
  for (const std::vector<TokenEvent>* events : {&answer.prompt, &answer.events}) {
    for (const TokenEvent& event : *events) {
      all.push_back(static_cast<float>(event.token));
      all.push_back(event.logprob);
      for (const TokenLogprob& top : event.top) {
        all.push_back(static_cast<float>(top.token));
        all.push_back(top.logprob);
      }
    }
  }
  return all;
}

std::vector<Answer> read_all(TokenStream& stream, int n_sequences) {
  std::vector<Answer> answers(static_cast<size_t>(n_sequences));
  std::vector<bool> done(answers.size(), false);
  for (int n_left = n_sequences; n_left > 0;) {
    std::optional<StreamEvent> event = stream.pop_for(std::chrono::seconds(60));
    if (!event) throw std::runtime_error("no event for 60 seconds");
    const size_t i = static_cast<size_t>(event->sequence);
    if (done.at(i)) throw std::runtime_error("an event after a sequence's last one");
    Answer& answer = answers[i];
    if (auto* prompt = std::get_if<PromptEvent>(&event->what)) {
      std::ranges::move(prompt->tokens, std::back_inserter(answer.prompt));
    } else if (auto* token = std::get_if<TokenEvent>(&event->what)) {
      answer.tokens.push_back(token->token);
      answer.events.push_back(std::move(*token));
    } else if (auto* embedding = std::get_if<EmbeddingEvent>(&event->what)) {
      if (!answer.embedding.empty()) throw std::runtime_error("two embeddings of one sequence");
      answer.embedding = std::move(embedding->values);
    } else {
      answer.finished = std::get<FinishedEvent>(event->what);
      done[i] = true;
      --n_left;
    }
  }
  if (stream.pop_for(std::chrono::milliseconds(0))) throw std::runtime_error("an event after the last one");
  return answers;
}

std::shared_ptr<TokenStream> submit(Engine& engine, GenerationRequest request) {
  std::variant<std::shared_ptr<TokenStream>, Refusal> result = engine.submit(std::move(request));
  if (const Refusal* refusal = std::get_if<Refusal>(&result)) {
    throw std::runtime_error("refused: " + std::string(refusal_name(*refusal)));
  }
  return std::get<0>(result);
}

std::shared_ptr<TokenStream> submit(Engine& engine, SequenceRequest sequence) {
  GenerationRequest request;
  request.sequences.push_back(std::move(sequence));
  return submit(engine, std::move(request));
}

Answer ask(Engine& engine, SequenceRequest sequence) {
  return read_all(*submit(engine, std::move(sequence)), 1).front();
}

Refusal refusal_of(Engine& engine, GenerationRequest request) {
  const std::variant<std::shared_ptr<TokenStream>, Refusal> result = engine.submit(std::move(request));
  if (const Refusal* refusal = std::get_if<Refusal>(&result)) return *refusal;
  throw std::runtime_error("accepted, not refused");
}

}  // namespace hearth
