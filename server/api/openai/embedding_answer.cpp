// See the header.
#include "server/api/openai/embedding_answer.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "server/api/answer/engine_errors.h"
#include "server/http/error_response.h"

namespace hearth {

EmbeddingAnswer::EmbeddingAnswer(Spec spec, std::shared_ptr<TokenStream> events, AnswerEvents::Clock now)
    : spec_(std::move(spec)),
      events_(std::move(events), spec_.blank_line_interval, std::move(now)),
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
  if (begun_) return;  // after a failure, the HTTP server breaks the connection
  if (outcome == Outcome::kFailed) writer.send(failure_response(*failure_, spec_.errors));
  if (outcome == Outcome::kClientLeft) writer.send(error_response(client_left()));
}

EmbeddingAnswer::Outcome EmbeddingAnswer::answer(ResponseWriter& writer) {
  while (n_open_ > 0) {
    std::optional<StreamEvent> event =
        events_.next(writer, [this, &writer] { return send_blank_line(writer); });
    if (!event) return Outcome::kClientLeft;
    take(*std::move(event));
    if (failure_) {
      events_.cancel();
      return Outcome::kFailed;
    }
  }
  return send_vectors(writer) ? Outcome::kComplete : Outcome::kClientLeft;
}

/// Keeps a silent connection open. The status and headers precede the first blank line.
bool EmbeddingAnswer::send_blank_line(ResponseWriter& writer) {
  events_.sent();
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

/// Cancels the request and reads the engine's remaining events, which the access log needs.
void EmbeddingAnswer::settle() {
  while (n_open_ > 0) {
    std::optional<StreamEvent> event = events_.next_after_cancel();
    if (!event) return;
    take(*std::move(event));
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
