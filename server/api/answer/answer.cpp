// The loop that converts the events of a request to bytes for its client.
#include "server/api/answer/answer.h"

#include <utility>
#include <variant>

#include "server/api/answer/engine_errors.h"
#include "server/http/error_response.h"

namespace hearth {
namespace {

/// A stream is silent during a long prefill, and some clients and proxies close a stream after 30 s of
/// silence. With a ping every 10 s, the silence stays below 30 s even if one ping is lost.
constexpr std::chrono::seconds kStreamPingInterval{10};

/// JSON parsers skip white space before a value.
constexpr std::string_view kJsonPing = "\n";

}  // namespace

Answer::Answer(AnswerSpec spec, std::unique_ptr<AnswerShape> shape, const Tokenizer& tokenizer,
               std::shared_ptr<TokenStream> events, AnswerEvents::Clock now)
    : spec_(std::move(spec)),
      shape_(std::move(shape)),
      choices_(spec_, tokenizer),
      events_(std::move(events), spec_.stream ? kStreamPingInterval : spec_.blank_line_interval,
              std::move(now)) {}

std::optional<ApiError> Answer::look_ahead(std::chrono::milliseconds timeout) {
  std::optional<StreamEvent> event = events_.pop_for(timeout);
  if (!event) return std::nullopt;
  if (const FinishedEvent* finished = std::get_if<FinishedEvent>(&event->what)) {
    const bool failed = finished->reason == FinishReason::kFailed ||
                        finished->reason == FinishReason::kTimedOut ||
                        finished->reason == FinishReason::kUnsatisfiable ||
                        (finished->reason == FinishReason::kCancelled && !spec_.cancelled());
    if (failed) return choices_.take(std::move(*event)).failure;
  }
  events_.put_back(std::move(*event));
  return std::nullopt;
}

void Answer::run(ResponseWriter& writer) {
  const Outcome outcome = answer(writer);
  if (outcome == Outcome::kClientLeft) settle();
  writer.report(choices_.record(outcome == Outcome::kComplete ? "complete"
                                : outcome == Outcome::kFailed ? "failed"
                                                              : "client left"));
  events_.cancel();  // the engine need not generate more tokens
  if (outcome == Outcome::kClientLeft && !begun_) writer.send(error_response(client_left()));
}

Answer::Outcome Answer::answer(ResponseWriter& writer) {
  if (spec_.stream && !begin_stream(writer)) return Outcome::kClientLeft;
  while (!choices_.complete()) {
    std::optional<StreamEvent> event = events_.next(writer, [this, &writer] { return ping(writer); });
    if (!event) return Outcome::kClientLeft;
    const Choices::Update update = take(std::move(*event));
    if (!send_update(writer, update)) return Outcome::kClientLeft;
    if (update.failure) {
      send_failure(writer, *update.failure);
      return Outcome::kFailed;
    }
  }
  return send_end(writer) ? Outcome::kComplete : Outcome::kClientLeft;
}

Choices::Update Answer::take(StreamEvent event) {
  const int sequence = event.sequence;
  Choices::Update update = choices_.take(std::move(event));
  if (update.stop_found) events_.cancel_sequence(sequence);
  return update;
}

/// Cancels the request and reads the engine's remaining events. The last event of a sequence contains the
/// sequence's times, which the access log needs.
void Answer::settle() {
  while (!choices_.complete()) {
    std::optional<StreamEvent> event = events_.next_after_cancel();
    if (!event) return;
    take(std::move(*event));
  }
}

bool Answer::begin_stream(ResponseWriter& writer) {
  begun_ = true;
  // X-Accel-Buffering: no makes nginx pass on the stream without buffering.
  if (!writer.begin(shape_->stream_type(), {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}}))
    return false;
  std::string bytes = shape_->begin();
  for (const ChoicePart& part : choices_.opening()) bytes += shape_->part(part);
  return write(writer, bytes);
}

/// Sends the parts of one event in one write.
bool Answer::send_update(ResponseWriter& writer, const Choices::Update& update) {
  std::string bytes;
  for (const ChoicePart& part : update.parts) bytes += shape_->part(part);
  if (update.finished) bytes += shape_->end(*update.finished);
  return write(writer, bytes);
}

/// Sends the error in the body of a stream, or as the response to an unstreamed request. If an unstreamed
/// body has already begun with blank lines, does not end the body. The HTTP server then breaks the
/// connection, so that the client does not take the body for complete.
void Answer::send_failure(ResponseWriter& writer, const ApiError& error) {
  if (!begun_) return writer.send(failure_response(error, shape_->error_style()));
  if (spec_.stream && write(writer, shape_->failure(error))) writer.finish();
}

bool Answer::send_end(ResponseWriter& writer) {
  std::string bytes =
      spec_.stream ? shape_->finish(choices_.totals()) : shape_->whole(choices_.whole(), choices_.totals());
  if (!begun_) {
    writer.send({.body = std::move(bytes)});
    return true;
  }
  if (!write(writer, bytes)) return false;
  writer.finish();
  return true;
}

/// Keeps a silent connection open: sends a ping to a stream, and a blank line otherwise. The status and
/// headers precede the first blank line.
bool Answer::ping(ResponseWriter& writer) {
  if (!std::exchange(begun_, true) && !writer.begin("application/json", {})) return false;
  return write(writer, spec_.stream ? shape_->ping() : kJsonPing);
}

/// Sends nothing if `bytes` is empty, for example if a token has no text yet. The connection then still
/// counts as silent.
bool Answer::write(ResponseWriter& writer, std::string_view bytes) {
  if (bytes.empty()) return true;
  events_.sent();
  return writer.write(bytes);
}

}  // namespace hearth
