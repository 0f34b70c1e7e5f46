// Turns the engine's events into the choices of an answer.
#include "server/api/choices.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>
#include <variant>

namespace hearth {
namespace {

/// What best_of ranks by: the mean log-probability, since a sum would favour short answers. An empty answer
/// is last.
double rank(const TextStream& text) {
  return text.n_tokens() == 0 ? -std::numeric_limits<double>::infinity()
                              : text.sum_logprob() / text.n_tokens();
}

ApiError failure_of(const FinishedEvent& event) {
  if (event.reason == FinishReason::kFailed) {
    return {
        .status = 500, .message = "The engine failed: " + event.error, .param = {}, .code = "engine_failed"};
  }
  return {.status = 503,
          .message = "The server is stopping and has cut this answer short; send the request again.",
          .param = {},
          .code = "server_stopping"};
}

/// The tokens of an echoed prompt, each with the characters of the prompt's text before it.
void add_prompt(LegacyLogprobs& out, const PreparedPrompt& prompt, const std::vector<TokenEvent>& events,
                const Tokenizer& tokenizer) {
  const int64_t length = count_characters(prompt.text);
  Detokenizer detokenizer(tokenizer, true, true);
  int64_t offset = 0;
  for (size_t i = 0; i < prompt.tokens.size(); ++i) {
    // Because of normalisation the tokens may spell more than the text they were made from. Offsets stay
    // within the text.
    const int64_t shown = std::min(offset, length);
    if (i == 0) {
      out.add_first(prompt.tokens[i], shown);
    } else if (i <= events.size()) {
      out.add(events[i - 1], shown);
    }
    if (i < static_cast<size_t>(prompt.n_hidden)) continue;
    if (prompt.tokens[i] < tokenizer.n_vocab())
      offset += count_characters(detokenizer.push(prompt.tokens[i]));
  }
}

}  // namespace

Choices::Choices(const AnswerSpec& spec, const Tokenizer& tokenizer) : spec_(&spec), tokenizer_(&tokenizer) {
  for (const PreparedPrompt& prompt : spec.prompts) {
    for (int i = 0; i < spec.best_of; ++i) {
      candidates_.push_back(new_candidate(prompt, static_cast<int>(candidates_.size())));
    }
  }
  n_open_ = static_cast<int>(candidates_.size());
}

Choices::Candidate Choices::new_candidate(const PreparedPrompt& prompt, int sequence) const {
  const bool reads = spec_->reading.has_value();
  Candidate candidate{.text = TextStream(*tokenizer_, prompt.starts_text,
                                         reads ? std::vector<std::string>() : spec_->stop,
                                         spec_->n_logprobs.has_value(), spec_->shown_tokens)};
  candidate.echo_due = spec_->echo;
  if (!reads) return candidate;
  ToolParserOptions options = *spec_->reading;
  const auto make_id = options.make_id;
  // Choices of one answer have ids of their own.
  options.make_id = [make_id, sequence](int index) { return make_id(1000 * sequence + index); };
  candidate.reader.emplace(std::move(options), spec_->stop);
  return candidate;
}

const PreparedPrompt& Choices::prompt_of(int sequence) const {
  return spec_->prompts[static_cast<size_t>(sequence / spec_->best_of)];
}

std::vector<Json> Choices::opening() {
  std::vector<Json> pieces;
  for (int sequence = 0; sequence < static_cast<int>(candidates_.size()); ++sequence) {
    if (spec_->head.chat) pieces.push_back(role_choice(sequence));
    // With log-probabilities the echo waits for those of the prompt.
    if (spec_->echo && !spec_->n_logprobs) pieces.push_back(echo_piece(sequence));
  }
  return pieces;
}

Choices::Update Choices::take(StreamEvent event) {
  Update update;
  Candidate& candidate = candidates_[static_cast<size_t>(event.sequence)];
  if (PromptEvent* prompt = std::get_if<PromptEvent>(&event.what)) {
    std::move(prompt->tokens.begin(), prompt->tokens.end(), std::back_inserter(candidate.prompt_tokens));
  } else if (TokenEvent* token = std::get_if<TokenEvent>(&event.what)) {
    if (candidate.finish_reason != nullptr) return update;  // generated before the engine heard of the stop
    take_piece(event.sequence, candidate.text.push(std::move(*token)), update);
    if (candidate.stopped()) {
      update.stop_found = true;
      end(event.sequence, "stop", update);
    }
  } else {
    finish(event.sequence, std::get<FinishedEvent>(event.what), update);
  }
  return update;
}

void Choices::finish(int sequence, const FinishedEvent& event, Update& update) {
  Candidate& candidate = candidates_[static_cast<size_t>(sequence)];
  --n_open_;
  candidate.n_cached = event.n_cached_tokens;
  has_times_ = true;
  queue_seconds_ = std::max(queue_seconds_, event.queue_seconds);
  prefill_seconds_ = std::max(prefill_seconds_, event.prefill_seconds);
  decode_seconds_ = std::max(decode_seconds_, event.decode_seconds);
  if (candidate.finish_reason != nullptr) return;
  if (event.reason != FinishReason::kStop && event.reason != FinishReason::kLength) {
    update.failure = failure_of(event);
    return;
  }
  take_piece(sequence, candidate.text.finish(), update);
  if (candidate.reader) take_parts(sequence, candidate.reader->finish(), update);
  // The last character may have completed a stop string.
  const bool stop = event.reason == FinishReason::kStop || candidate.stopped();
  const bool calls = candidate.reader && candidate.reader->made_calls();
  end(sequence, !stop ? "length" : calls ? "tool_calls" : "stop", update);
}

void Choices::take_piece(int sequence, TextPiece piece, Update& update) {
  Candidate& candidate = candidates_[static_cast<size_t>(sequence)];
  if (candidate.reader) {
    std::move(piece.tokens.begin(), piece.tokens.end(), std::back_inserter(candidate.tokens));
    if (!piece.text.empty()) take_parts(sequence, candidate.reader->push(piece.text), update);
    return;
  }
  if (!spec_->stream) {
    candidate.collected.text += piece.text;
    std::move(piece.tokens.begin(), piece.tokens.end(), std::back_inserter(candidate.tokens));
    return;
  }
  if (candidate.echo_due) update.pieces.push_back(echo_piece(sequence));
  if (piece.text.empty() && piece.tokens.empty()) return;
  update.pieces.push_back(
      piece_choice(spec_->head, {.index = sequence,
                                 .text = std::move(piece.text),
                                 .logprobs = logprobs(sequence, piece.tokens, false, true),
                                 .finish_reason = nullptr}));
}

// Log-probabilities go with the first part that comes after their tokens.
void Choices::take_parts(int sequence, const std::vector<ToolEvent>& parts, Update& update) {
  Candidate& candidate = candidates_[static_cast<size_t>(sequence)];
  for (const ToolEvent& part : parts) {
    if (!spec_->stream) {
      candidate.collected.add(part);
    } else if (part.kind != ToolEvent::Kind::kCallEnd) {
      const std::vector<PlacedToken> tokens = std::exchange(candidate.tokens, {});
      update.pieces.push_back(part_choice(sequence, part, logprobs(sequence, tokens, false, true)));
    }
  }
}

void Choices::end(int sequence, const char* reason, Update& update) {
  candidates_[static_cast<size_t>(sequence)].finish_reason = reason;
  if (spec_->stream) update.pieces.push_back(end_choice(spec_->head, sequence, reason));
}

Json Choices::echo_piece(int sequence) {
  candidates_[static_cast<size_t>(sequence)].echo_due = false;
  return piece_choice(spec_->head, {.index = sequence,
                                    .text = prompt_of(sequence).text,
                                    .logprobs = logprobs(sequence, {}, true, false),
                                    .finish_reason = nullptr});
}

Json Choices::logprobs(int sequence, const std::vector<PlacedToken>& tokens, bool with_prompt,
                       bool with_text) const {
  if (!spec_->n_logprobs) return nullptr;
  if (spec_->head.chat) return chat_logprobs(*tokenizer_, tokens, *spec_->n_logprobs);
  LegacyLogprobs out(*tokenizer_, *spec_->n_logprobs);
  const PreparedPrompt& prompt = prompt_of(sequence);
  if (with_prompt) {
    add_prompt(out, prompt, candidates_[static_cast<size_t>(sequence)].prompt_tokens, *tokenizer_);
  }
  const int64_t base = spec_->echo ? count_characters(prompt.text) : 0;
  if (with_text) {
    for (const PlacedToken& token : tokens) out.add(token.event, base + token.offset);
  }
  return out.take();
}

Json Choices::choice(int sequence, int index) {
  Candidate& candidate = candidates_[static_cast<size_t>(sequence)];
  Json of_tokens = logprobs(sequence, candidate.tokens, spec_->echo, true);
  if (spec_->head.chat) {
    return message_choice(index, candidate.collected, std::move(of_tokens), candidate.finish_reason);
  }
  std::string text = spec_->echo ? prompt_of(sequence).text : std::string();
  text += candidate.collected.text;
  return piece_choice(spec_->head, {.index = index,
                                    .text = std::move(text),
                                    .logprobs = std::move(of_tokens),
                                    .finish_reason = candidate.finish_reason});
}

/// The sequences of a prompt that become its choices, in order.
std::vector<int> Choices::best(int prompt) const {
  std::vector<int> order(static_cast<size_t>(spec_->best_of));
  std::iota(order.begin(), order.end(), prompt * spec_->best_of);
  if (spec_->best_of == spec_->n) return order;
  std::stable_sort(order.begin(), order.end(), [this](int a, int b) {
    return rank(candidates_[static_cast<size_t>(a)].text) > rank(candidates_[static_cast<size_t>(b)].text);
  });
  order.resize(static_cast<size_t>(spec_->n));
  return order;
}

Json Choices::whole() {
  Json choices = Json::array();
  for (int prompt = 0; prompt < static_cast<int>(spec_->prompts.size()); ++prompt) {
    for (const int sequence : best(prompt))
      choices.push_back(choice(sequence, static_cast<int>(choices.size())));
  }
  return choices;
}

GenerationRecord Choices::record(const char* ended) const {
  const Usage total = usage();
  return {.n_prompt = total.n_prompt,
          .n_cached = total.n_cached,
          .n_generated = total.n_completion,
          .has_times = has_times_,
          .queue_seconds = queue_seconds_,
          .prefill_seconds = prefill_seconds_,
          .decode_seconds = decode_seconds_,
          .ended = ended};
}

Usage Choices::usage() const {
  Usage usage;
  for (size_t prompt = 0; prompt < spec_->prompts.size(); ++prompt) {
    // A prompt counts once, however many choices it has. Later candidates find the prompt in the cache
    // because of the first one, so the smallest number is what was cached before the request.
    int n_cached = std::numeric_limits<int>::max();
    for (size_t i = 0; i < static_cast<size_t>(spec_->best_of); ++i) {
      const Candidate& candidate = candidates_[prompt * static_cast<size_t>(spec_->best_of) + i];
      usage.n_completion += candidate.text.n_tokens();
      n_cached = std::min(n_cached, candidate.n_cached);
    }
    usage.n_prompt += static_cast<int64_t>(spec_->prompts[prompt].tokens.size());
    usage.n_cached += n_cached;
  }
  return usage;
}

}  // namespace hearth
