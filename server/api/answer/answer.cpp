// The loop that turns a request's events into bytes for its client.
#include "server/api/answer/answer.h"

#include <utility>
#include <variant>

#include "server/api/answer/engine_errors.h"

namespace hearth {
namespace {

/// Interval for checking whether the client is still there. Twenty checks a second cost nothing.
constexpr std::chrono::milliseconds kLookInterval{50};
/// Clients and proxies give up on silent streams (common strict ones after 30 to 60 s), and a long prefill is
/// silent. A third of 30 s allows for one lost ping.
constexpr std::chrono::seconds kStreamPingInterval{10};
/// How many look intervals to wait for the engine's last event after a client has left, for the log line. The
/// engine ends a cancelled request within one step, which rarely takes a second.
constexpr int kSettleLooks = 20;

/// JSON parsers skip white space before the value.
constexpr std::string_view kJsonPing = "\n";

}  // namespace

Answer::Answer(AnswerSpec spec, std::unique_ptr<AnswerShape> shape, const Tokenizer& tokenizer,
               std::shared_ptr<TokenStream> events, Clock now)
    : spec_(std::move(spec)),
      shape_(std::move(shape)),
      choices_(spec_, tokenizer),
      events_(std::move(events)),
      now_(std::move(now)),
      last_sent_(now_()),
      last_look_(last_sent_) {}

Answer::~Answer() { events_->cancel(); }

std::optional<ApiError> Answer::look_ahead(std::chrono::milliseconds timeout) {
  std::optional<StreamEvent> event = events_->pop_for(timeout);
  if (!event) return std::nullopt;
  if (const FinishedEvent* finished = std::get_if<FinishedEvent>(&event->what)) {
    const bool failed = finished->reason == FinishReason::kFailed ||
                        finished->reason == FinishReason::kTimedOut ||
                        finished->reason == FinishReason::kUnsatisfiable ||
                        (finished->reason == FinishReason::kCancelled && !spec_.cancelled());
    if (failed) return choices_.take(std::move(*event)).failure;
  }
  early_.push_back(std::move(*event));
  return std::nullopt;
}

std::optional<ApiError> Answer::await(ResponseClient& client) {
  const auto begin = now_();
  const auto ping_due = [&] { return ping_interval().count() > 0 && now_() >= begin + ping_interval(); };
  while (!choices_.complete() && !ping_due()) {
    if (!client.client_alive()) {
      settle();
      client.report(choices_.record("client left"));
      return client_left();
    }
    std::optional<StreamEvent> event = early_.empty() ? events_->pop_for(kLookInterval) : take_early();
    if (!event) continue;
    if (std::optional<ApiError> failure = take(std::move(*event)).failure) {
      client.report(choices_.record("failed"));
      events_->cancel();
      return failure;
    }
  }
  return std::nullopt;
}

std::optional<std::string> Answer::whole(ResponseClient& client) {
  if (!choices_.complete()) return std::nullopt;
  client.report(choices_.record("complete"));
  return shape_->whole(choices_.whole(), choices_.totals());
}

bool Answer::produce(ResponseSink& sink) {
  const bool sent = produce_events(sink);
  if (!sent && !failed_) settle();
  sink.report(choices_.record(failed_ ? "failed" : sent ? "complete" : "client left"));
  // In any case, nobody needs the remaining tokens.
  events_->cancel();
  return sent;
}

bool Answer::produce_events(ResponseSink& sink) {
  if (spec_.stream && !send_begin(sink)) return false;
  while (!choices_.complete()) {
    std::optional<StreamEvent> event = next_event(sink);
    if (!event) return false;
    const Choices::Update update = take(std::move(*event));
    if (!send_update(sink, update)) return false;
    if (update.failure) return send_failure(sink, *update.failure);
  }
  return send_end(sink);
}

Choices::Update Answer::take(StreamEvent event) {
  const int sequence = event.sequence;
  Choices::Update update = choices_.take(std::move(event));
  if (update.stop_found) events_->cancel_sequence(sequence);
  return update;
}

/// Cancels the request and takes the engine's remaining events; the last one has the times.
void Answer::settle() {
  events_->cancel();
  for (int looks = 0; looks < kSettleLooks && !choices_.complete();) {
    std::optional<StreamEvent> event = early_.empty() ? events_->pop_for(kLookInterval) : take_early();
    if (event) {
      take(std::move(*event));
    } else {
      ++looks;
    }
  }
}

/// Interval of silence after which the client is pinged; 0: never.
std::chrono::seconds Answer::ping_interval() const {
  return spec_.stream ? kStreamPingInterval : spec_.blank_line_interval;
}

/// REQUIRES: early_ is not empty.
StreamEvent Answer::take_early() {
  StreamEvent event = std::move(early_.front());
  early_.pop_front();
  return event;
}

/// Waits for the next event and pings the client meanwhile. Returns nullopt if the client is gone.
std::optional<StreamEvent> Answer::next_event(ResponseSink& sink) {
  if (!early_.empty()) return take_early();
  while (true) {
    std::optional<StreamEvent> event = events_->pop_for(kLookInterval);
    const auto now = now_();
    // Check even while events arrive quickly: an unstreamed answer may write nothing for minutes.
    if (!event || now - last_look_ >= kLookInterval) {
      last_look_ = now;
      if (!sink.client_alive()) return std::nullopt;
      const bool ping_due = ping_interval().count() > 0 && now - last_sent_ >= ping_interval();
      if (ping_due && !send(sink, spec_.stream ? shape_->ping() : kJsonPing)) return std::nullopt;
    }
    if (event) return event;
  }
}

bool Answer::send(ResponseSink& sink, std::string_view bytes) {
  last_sent_ = now_();
  return bytes.empty() || sink.write(bytes);
}

bool Answer::send_begin(ResponseSink& sink) {
  std::string bytes = shape_->begin();
  for (const ChoicePart& part : choices_.opening()) bytes += shape_->part(part);
  return send(sink, bytes);
}

/// Sends all output of one event in one write.
bool Answer::send_update(ResponseSink& sink, const Choices::Update& update) {
  std::string bytes;
  for (const ChoicePart& part : update.parts) bytes += shape_->part(part);
  if (update.finished) bytes += shape_->end(*update.finished);
  return send(sink, bytes);
}

/// The status line has been sent. A stream can still report the error; an unstreamed answer is broken off, so
/// that its beginning does not look complete.
bool Answer::send_failure(ResponseSink& sink, const ApiError& error) {
  failed_ = true;
  if (!spec_.stream) return false;
  return send(sink, shape_->failure(error));
}

bool Answer::send_end(ResponseSink& sink) {
  return send(sink, spec_.stream ? shape_->finish(choices_.totals())
                                 : shape_->whole(choices_.whole(), choices_.totals()));
}

}  // namespace hearth
