// The loop that turns a request's events into bytes for its client.
#include "server/api/answer/answer.h"

#include <utility>
#include <variant>

#include "server/api/answer/engine_errors.h"

namespace hearth {
namespace {

/// How long to wait for an event before checking whether the client is still there. Twenty checks a second
/// cost nothing.
constexpr std::chrono::milliseconds kLookInterval{50};
/// Clients and proxies give up on silent streams, the strictest common ones after 30 to 60 s, and a long
/// prefill is silent. A third of 30 s allows for a lost ping.
constexpr std::chrono::seconds kStreamPingInterval{10};
/// How many look intervals the log line of a client that has left waits for the engine's last word. The engine
/// ends a cancelled request within one step, which rarely takes a second.
constexpr int kSettleLooks = 20;

/// Parsers of JSON skip white space before the value.
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
  // Whatever the outcome, nobody wants the tokens that are still to come.
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

/// Cancels the request and takes what the engine still says of it: its times are in its last event.
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

/// After how much silence the client is pinged; 0: never.
std::chrono::seconds Answer::ping_interval() const {
  return spec_.stream ? kStreamPingInterval : spec_.blank_line_interval;
}

/// REQUIRES: early_ is not empty.
StreamEvent Answer::take_early() {
  StreamEvent event = std::move(early_.front());
  early_.pop_front();
  return event;
}

/// Waits for the next event, and pings the client meanwhile. nullopt if the client is gone.
std::optional<StreamEvent> Answer::next_event(ResponseSink& sink) {
  if (!early_.empty()) return take_early();
  while (true) {
    std::optional<StreamEvent> event = events_->pop_for(kLookInterval);
    const auto now = now_();
    // Also while events come quickly: an answer that is sent whole writes nothing then, for minutes perhaps.
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

/// All that comes of one event goes out in one write.
bool Answer::send_update(ResponseSink& sink, const Choices::Update& update) {
  std::string bytes;
  for (const ChoicePart& part : update.parts) bytes += shape_->part(part);
  if (update.finished) bytes += shape_->end(*update.finished);
  return send(sink, bytes);
}

/// The status line has been sent. A stream can still say what happened. An answer that is sent whole is
/// broken off, so that its beginning does not look complete.
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
