// Converts the engine's events to parts of an answer's choices.
#include "server/api/answer/choices.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>
#include <variant>

#include "server/api/answer/engine_errors.h"
#include "server/api/request/prompt_tokens.h"

namespace hearth {
namespace {

/// Returns the quality of a candidate for best_of: its mean log-probability, because the sum would favor
/// short answers. An empty answer has the lowest quality.
double rank(const TextStream& text) {
  return text.n_tokens() == 0 ? -std::numeric_limits<double>::infinity()
                              : text.sum_logprob() / text.n_tokens();
}

/// Returns how a choice ended, for the access log.
const char* finish_word(const std::optional<FinishedChoice>& finished) {
  if (!finished) return "";
  if (finished->repeated) return kRepetition;
  return finished->cancelled ? "cancelled" : finish_reason(finished->end);
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
  const std::optional<ChatForm>& chat = spec_->chat;
  Candidate candidate{
      .text = TextStream(*tokenizer_, prompt.starts_text, chat ? std::vector<std::string>() : spec_->stop,
                         spec_->with_logprobs, chat ? chat->syntax.control_tokens : std::vector<int32_t>())};
  candidate.echo_due = spec_->echo;
  if (!chat) return candidate;
  // The ids of calls must differ between choices.
  const auto make_id = [seed = spec_->call_id_seed, sequence, is_short = chat->syntax.short_ids](int index) {
    return make_call_id(seed, 1000 * sequence + index, is_short);
  };
  candidate.reader.emplace(*chat, make_id, spec_->stop);
  return candidate;
}

const PreparedPrompt& Choices::prompt_of(int sequence) const {
  return spec_->prompts[static_cast<size_t>(sequence / spec_->best_of)];
}

std::vector<ChoicePart> Choices::opening() {
  std::vector<ChoicePart> parts;
  if (!spec_->echo || spec_->with_logprobs)
    return parts;  // the echo needs the prompt's log-probabilities, which come later
  for (int sequence = 0; sequence < static_cast<int>(candidates_.size()); ++sequence)
    parts.push_back(echo_part(sequence));
  return parts;
}

Choices::Update Choices::take(StreamEvent event) {
  Update update;
  Candidate& candidate = candidates_[static_cast<size_t>(event.sequence)];
  if (PromptEvent* prompt = std::get_if<PromptEvent>(&event.what)) {
    std::move(prompt->tokens.begin(), prompt->tokens.end(), std::back_inserter(candidate.prompt_tokens));
  } else if (TokenEvent* token = std::get_if<TokenEvent>(&event.what)) {
    if (candidate.finished) return update;  // generated before the engine received the stop
    ++candidate.n_undecided;
    take_piece(event.sequence, candidate.text.push(std::move(*token)), update);
    if (candidate.stopped()) {
      update.stop_found = true;
      end(event.sequence, ChoiceEnd::kStop, update);
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
  candidate.n_matched = event.n_matched_tokens;
  drafts_.n_drafted += event.drafts.n_drafted;
  drafts_.n_accepted += event.drafts.n_accepted;
  drafts_.n_predicted += event.drafts.n_predicted;
  drafts_.n_foreseen += event.drafts.n_foreseen;
  has_times_ = true;
  queue_seconds_ = std::max(queue_seconds_, event.queue_seconds);
  prefill_seconds_ = std::max(prefill_seconds_, event.prefill_seconds);
  decode_seconds_ = std::max(decode_seconds_, event.decode_seconds);
  if (candidate.finished) return;
  const bool cancelled = event.reason == FinishReason::kCancelled && spec_->cancelled();
  const bool repeated = event.reason == FinishReason::kRepeated;
  const bool ended = event.reason == FinishReason::kStop || event.reason == FinishReason::kLength ||
                     repeated || (event.reason == FinishReason::kTimedOut && event.n_generated_tokens > 0);
  if (!ended && !cancelled) {
    update.failure = failure_of(event);
    return;
  }
  take_piece(sequence, candidate.text.finish(), update);
  if (candidate.reader) take_parts(sequence, candidate.reader->finish(), update);
  // The last character may have completed a stop string, so stopped() is checked again.
  const bool stop = event.reason == FinishReason::kStop || candidate.stopped();
  const bool calls = candidate.reader && candidate.reader->made_calls();
  end(sequence,
      !stop   ? ChoiceEnd::kLength
      : calls ? ChoiceEnd::kToolCalls
              : ChoiceEnd::kStop,
      update, cancelled, repeated && !stop);
}

/// Converts offsets in the generated text to offsets in the choice's text, which may begin with an echoed
/// prompt.
void Choices::place(std::vector<PlacedToken>& tokens, int sequence) const {
  if (!spec_->echo) return;
  const int64_t n_echoed = count_characters(prompt_of(sequence).text);
  for (PlacedToken& token : tokens) token.offset += n_echoed;
}

void Choices::take_piece(int sequence, TextPiece piece, Update& update) {
  Candidate& candidate = candidates_[static_cast<size_t>(sequence)];
  place(piece.tokens, sequence);
  if (candidate.reader || !spec_->stream) {
    std::move(piece.tokens.begin(), piece.tokens.end(), std::back_inserter(candidate.tokens));
    if (piece.text.empty()) return;
    if (candidate.reader) return take_parts(sequence, candidate.reader->push(piece.text), update);
    append(candidate.said, {.text = piece.text});
    return count_tokens(candidate);
  }
  if (candidate.echo_due) update.parts.push_back(echo_part(sequence));
  if (piece.text.empty() && piece.tokens.empty()) return;
  update.parts.push_back(
      {.choice = sequence, .said = {.text = std::move(piece.text)}, .tokens = std::move(piece.tokens)});
}

/// Assigns all tokens that do not belong to an item yet to the last item.
void Choices::count_tokens(Candidate& candidate) {
  candidate.said.back().n_tokens += candidate.tokens.size() - candidate.n_placed;
  candidate.n_placed = candidate.tokens.size();
}

// Creates parts for a stream, or items for an unstreamed answer. Assigns the tokens since the previous part
// to the next part. The end of a call gets no tokens; they are assigned to the part after the call.
void Choices::take_parts(int sequence, const std::vector<ToolEvent>& parts, Update& update) {
  Candidate& candidate = candidates_[static_cast<size_t>(sequence)];
  for (const ToolEvent& part : parts) {
    const int n_tokens = std::exchange(candidate.n_undecided, 0);
    if (part.kind == ToolEvent::Kind::kReasoning) candidate.n_reasoning += n_tokens;
    if (!spec_->stream) {
      append(candidate.said, part);
      if (part.kind != ToolEvent::Kind::kCallEnd) count_tokens(candidate);
      continue;
    }
    ChoicePart& made = update.parts.emplace_back(ChoicePart{.choice = sequence, .said = part});
    if (part.kind != ToolEvent::Kind::kCallEnd) made.tokens = std::exchange(candidate.tokens, {});
  }
}

void Choices::end(int sequence, ChoiceEnd end, Update& update, bool cancelled, bool repeated) {
  Candidate& candidate = candidates_[static_cast<size_t>(sequence)];
  candidate.finished = FinishedChoice{
      .choice = sequence,
      .end = end,
      .stop_string = candidate.reader ? candidate.reader->stop_string() : candidate.text.stop_string(),
      .cancelled = cancelled,
      .repeated = repeated};
  if (spec_->stream) update.finished = candidate.finished;
}

const EchoedPrompt* Choices::echo_of(int sequence) {
  if (!spec_->echo) return nullptr;
  Candidate& candidate = candidates_[static_cast<size_t>(sequence)];
  candidate.echo = {.prompt = &prompt_of(sequence), .tokens = candidate.prompt_tokens};
  return &candidate.echo;
}

ChoicePart Choices::echo_part(int sequence) {
  candidates_[static_cast<size_t>(sequence)].echo_due = false;
  return {.choice = sequence, .said = {.text = prompt_of(sequence).text}, .echo = echo_of(sequence)};
}

WholeChoice Choices::whole_choice(int sequence, int index) {
  Candidate& candidate = candidates_[static_cast<size_t>(sequence)];
  WholeChoice choice{.finished = *candidate.finished,
                     .said = std::move(candidate.said),
                     .tokens = std::move(candidate.tokens),
                     .echo = echo_of(sequence)};
  choice.finished.choice = index;
  return choice;
}

/// Returns the sequences that become the choices of a prompt: all candidates, or the best ones in descending
/// order if best_of exceeds n.
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

std::vector<WholeChoice> Choices::whole() {
  std::vector<WholeChoice> choices;
  for (int prompt = 0; prompt < static_cast<int>(spec_->prompts.size()); ++prompt) {
    for (const int sequence : best(prompt))
      choices.push_back(whole_choice(sequence, static_cast<int>(choices.size())));
  }
  return choices;
}

GenerationRecord Choices::record(const char* ended) const {
  const Usage total = totals().usage;
  return {.n_prompt = total.n_prompt,
          .n_cached = total.n_cached,
          .n_matched = total.n_matched,
          .n_generated = total.n_completion,
          .n_matched_messages = n_matched_messages(total.n_matched),
          .has_times = has_times_,
          .queue_seconds = queue_seconds_,
          .prefill_seconds = prefill_seconds_,
          .decode_seconds = decode_seconds_,
          .ended = ended,
          .finish_reason = candidates_.empty() ? "" : finish_word(candidates_.front().finished),
          .model = spec_->model};
}

/// Returns how many messages of a single prompt end within its first tokens.
std::optional<int> Choices::n_matched_messages(int64_t n_tokens) const {
  if (spec_->prompts.size() != 1) return std::nullopt;
  const std::vector<int> starts = message_starts(spec_->prompts.front().tokens, *tokenizer_);
  if (starts.empty()) return std::nullopt;
  return static_cast<int>(std::ranges::count_if(starts, [&](int start) { return start <= n_tokens; }));
}

AnswerTotals Choices::totals() const {
  AnswerTotals totals{.usage = {},
                      .queue_seconds = queue_seconds_,
                      .prefill_seconds = prefill_seconds_,
                      .decode_seconds = decode_seconds_};
  Usage& usage = totals.usage;
  if (spec_->speculates) totals.drafts = drafts_;
  if (spec_->has_prediction)
    usage.prediction = {.n_accepted = drafts_.n_foreseen,
                        .n_rejected = drafts_.n_predicted - drafts_.n_foreseen};
  for (size_t prompt = 0; prompt < spec_->prompts.size(); ++prompt) {
    // Candidates share their prompt, so its tokens count only once. The first candidate stores the prompt in
    // the prefix cache, where the other candidates find it. Only the first candidate shows how many tokens
    // the cache held before the request, and this number is the minimum over the candidates.
    int n_cached = std::numeric_limits<int>::max(), n_matched = n_cached;
    for (size_t i = 0; i < static_cast<size_t>(spec_->best_of); ++i) {
      const Candidate& candidate = candidates_[prompt * static_cast<size_t>(spec_->best_of) + i];
      usage.n_completion += candidate.text.n_tokens();
      usage.n_reasoning += candidate.n_reasoning;
      n_cached = std::min(n_cached, candidate.n_cached);
      n_matched = std::min(n_matched, candidate.n_matched);
    }
    usage.n_prompt += static_cast<int64_t>(spec_->prompts[prompt].tokens.size());
    usage.n_cached += n_cached;
    usage.n_matched += n_matched;
  }
  return totals;
}

}  // namespace hearth
