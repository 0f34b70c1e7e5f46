// See the header.
#include "server/api/openai/embedding_answer.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "server/api/answer/engine_errors.h"
#include "server/http/error_response.h"

namespace hearth {
namespace {

/// How long to wait for an event before checking whether the client is still there.
constexpr std::chrono::milliseconds kLookInterval{50};
/// How many look intervals to wait for the engine's last event after a client has left, for the log line.
constexpr int kSettleLooks = 20;

}  // namespace

EmbeddingAnswer::EmbeddingAnswer(Spec spec, std::shared_ptr<TokenStream> events, Clock now)
    : spec_(std::move(spec)),
      events_(std::move(events)),
      now_(std::move(now)),
      next_blank_line_(now_() + spec_.blank_line_interval),
      vectors_(spec_.n_inputs),
      n_open_(spec_.n_inputs) {
  record_.n_prompt = spec_.n_prompt_tokens;
}

void EmbeddingAnswer::run(ResponseWriter& writer) {
  const Outcome outcome = answer(writer);
  if (outcome == Outcome::kClientLeft) settle();
  writer.report(record(outcome == Outcome::kComplete ? "complete"
                       : outcome == Outcome::kFailed ? "failed"
                                                     : "client left"));
  if (begun_) return;  // a failure then breaks the answer off
  if (outcome == Outcome::kFailed) writer.send(failure_response(*failure_, spec_.errors));
  if (outcome == Outcome::kClientLeft) writer.send(error_response(client_left()));
}

EmbeddingAnswer::Outcome EmbeddingAnswer::answer(ResponseWriter& writer) {
  Outcome outcome = wait(writer);
  while (outcome == Outcome::kBlankLineDue)
    outcome = send_blank_line(writer) ? wait(writer) : Outcome::kClientLeft;
  if (outcome == Outcome::kComplete && !send_vectors(writer)) return Outcome::kClientLeft;
  return outcome;
}

EmbeddingAnswer::Outcome EmbeddingAnswer::wait(ResponseWriter& writer) {
  while (n_open_ > 0) {
    if (spec_.blank_line_interval.count() > 0 && now_() >= next_blank_line_) return Outcome::kBlankLineDue;
    if (!writer.client_alive()) return Outcome::kClientLeft;
    std::optional<StreamEvent> event = events_->pop_for(kLookInterval);
    if (event) take(*std::move(event));
    if (failure_) {
      events_->cancel();
      return Outcome::kFailed;
    }
  }
  return Outcome::kComplete;
}

/// The first blank line begins the body.
bool EmbeddingAnswer::send_blank_line(ResponseWriter& writer) {
  next_blank_line_ += spec_.blank_line_interval;
  if (!std::exchange(begun_, true) && !writer.begin("application/json", {})) return false;
  return writer.write("\n");
}

bool EmbeddingAnswer::send_vectors(ResponseWriter& writer) {
  if (!begun_) {
    writer.send({.body = json()});
    return true;
  }
  if (!writer.write(json())) return false;
  writer.finish();
  return true;
}

void EmbeddingAnswer::take(StreamEvent event) {
  if (EmbeddingEvent* embedding = std::get_if<EmbeddingEvent>(&event.what)) {
    vectors_[static_cast<size_t>(event.sequence)] = std::move(embedding->values);
  } else if (const FinishedEvent* finished = std::get_if<FinishedEvent>(&event.what)) {
    --n_open_;
    record_.has_times = true;
    record_.queue_seconds = std::max(record_.queue_seconds, finished->queue_seconds);
    record_.prefill_seconds = std::max(record_.prefill_seconds, finished->prefill_seconds);
    if (!failure_ && finished->reason != FinishReason::kStop) failure_ = failure_of(*finished);
  }
}

/// Cancels the request and takes the engine's remaining events, for the log.
void EmbeddingAnswer::settle() {
  events_->cancel();
  for (int looks = 0; looks < kSettleLooks && n_open_ > 0;) {
    if (std::optional<StreamEvent> event = events_->pop_for(kLookInterval)) {
      take(*std::move(event));
    } else {
      ++looks;
    }
  }
}

std::string EmbeddingAnswer::json() {
  if (spec_.body) return spec_.body(std::move(vectors_), record_);
  return embeddings_json(std::move(vectors_), spec_.format, spec_.model, spec_.n_prompt_tokens);
}

GenerationRecord EmbeddingAnswer::record(const char* ended) const {
  GenerationRecord record = record_;
  record.ended = ended;
  record.model = spec_.served_model;
  return record;
}

}  // namespace hearth
