// The loop that turns a request's events into bytes for its client.
#include "server/api/answer.h"

#include <utility>
#include <variant>

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

/// Parsers of event streams skip comments, and parsers of JSON skip white space before the value.
constexpr std::string_view kStreamPing = ": ping\n\n";
constexpr std::string_view kJsonPing = "\n";

}  // namespace

Answer::Answer(AnswerSpec spec, const Tokenizer& tokenizer, std::shared_ptr<TokenStream> events, Clock now)
    : spec_(std::move(spec)),
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
    const bool failed =
        finished->reason == FinishReason::kFailed || finished->reason == FinishReason::kCancelled;
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
      return ApiError{499, "The client closed its side of the connection before the answer was complete.", "",
                      "client_left"};
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
  return json_text(whole_answer(spec_.head, choices_.whole(), choices_.usage()));
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
  if (spec_.stream && !send_pieces(sink, choices_.opening())) return false;
  while (!choices_.complete()) {
    std::optional<StreamEvent> event = next_event(sink);
    if (!event) return false;
    Choices::Update update = take(std::move(*event));
    if (!send_pieces(sink, std::move(update.pieces))) return false;
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
      if (ping_due && !send(sink, spec_.stream ? kStreamPing : kJsonPing)) return std::nullopt;
    }
    if (event) return event;
  }
}

bool Answer::send(ResponseSink& sink, std::string_view bytes) {
  last_sent_ = now_();
  return sink.write(bytes);
}

bool Answer::send_pieces(ResponseSink& sink, std::vector<Json> pieces) {
  std::string bytes;  // all pieces of one event go out in one write
  for (Json& piece : pieces) {
    Json data = chunk(spec_.head, Json::array({std::move(piece)}));
    if (spec_.include_usage) data["usage"] = nullptr;
    bytes += sse_event(json_text(data));
  }
  return bytes.empty() || send(sink, bytes);
}

/// The status line has been sent. A stream can still say what happened. An answer that is sent whole is
/// broken off, so that its beginning does not look complete.
bool Answer::send_failure(ResponseSink& sink, const ApiError& error) {
  failed_ = true;
  if (!spec_.stream) return false;
  return send(sink, sse_event(error_json(error)));
}

bool Answer::send_end(ResponseSink& sink) {
  if (!spec_.stream)
    return send(sink, json_text(whole_answer(spec_.head, choices_.whole(), choices_.usage())));
  std::string bytes;
  if (spec_.include_usage) {
    Json data = chunk(spec_.head, Json::array());
    data["usage"] = usage_json(choices_.usage());
    bytes += sse_event(json_text(data));
  }
  bytes += sse_event("[DONE]");
  return send(sink, bytes);
}

}  // namespace hearth
