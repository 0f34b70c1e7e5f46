// The loop that turns a request's events into bytes for its client.
#include "server/api/answer.h"

#include <utility>
#include <variant>

namespace hearth {
namespace {

/// How long to wait for an event before looking after the client: a client that leaves is noticed within one
/// such time, and twenty looks a second cost nothing.
constexpr std::chrono::milliseconds kLookInterval{50};
/// Clients and proxies give up on silent connections, the strictest common ones after 30 to 60 s; a long
/// prefill is silent. A third of 30 s survives a lost ping.
constexpr std::chrono::seconds kPingInterval{10};

/// A comment, which event stream parsers skip; white space, which JSON parsers skip before the value.
constexpr std::string_view kStreamPing = ": ping\n\n";
constexpr std::string_view kJsonPing = "\n";

}  // namespace

Answer::Answer(AnswerPlan plan, const Tokenizer& tokenizer, std::shared_ptr<TokenStream> events,
               ApiWorld world)
    : plan_(std::move(plan)),
      choices_(plan_, tokenizer),
      events_(std::move(events)),
      world_(std::move(world)),
      last_sent_(world_.now()),
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
  const auto until = world_.now() + kPingInterval;
  while (!choices_.complete() && client.client_alive() && world_.now() < until) {
    std::optional<StreamEvent> event = early_.empty() ? events_->pop_for(kLookInterval) : take_early();
    if (!event) continue;
    if (const std::optional<ApiError> failure = take(std::move(*event)).failure) {
      client.report(choices_.record("failed"));
      events_->cancel();
      return failure;
    }
  }
  return std::nullopt;
}

bool Answer::produce(ResponseSink& sink) {
  const bool sent = produce_events(sink);
  sink.report(choices_.record(failed_ ? "failed" : sent ? "complete" : "client left"));
  // Whether complete, failed or without a reader: nothing that still runs is wanted.
  events_->cancel();
  return sent;
}

bool Answer::produce_events(ResponseSink& sink) {
  if (plan_.stream && !send_pieces(sink, choices_.opening())) return false;
  while (!choices_.complete()) {
    std::optional<StreamEvent> event = next_event(sink);
    if (!event) return false;
    Choices::Step step = take(std::move(*event));
    if (!send_pieces(sink, std::move(step.pieces))) return false;
    if (step.failure) return send_failure(sink, *step.failure);
  }
  return send_end(sink);
}

Choices::Step Answer::take(StreamEvent event) {
  const int sequence = event.sequence;
  Choices::Step step = choices_.take(std::move(event));
  if (step.stop_found) events_->cancel_sequence(sequence);
  return step;
}

/// REQUIRES: there is one.
StreamEvent Answer::take_early() {
  StreamEvent event = std::move(early_.front());
  early_.pop_front();
  return event;
}

/// nullopt: the client is gone.
std::optional<StreamEvent> Answer::next_event(ResponseSink& sink) {
  if (!early_.empty()) return take_early();
  while (true) {
    std::optional<StreamEvent> event = events_->pop_for(kLookInterval);
    const auto now = world_.now();
    // Events may come faster than the interval for minutes; an answer sent whole writes nothing meanwhile.
    if (!event || now - last_look_ >= kLookInterval) {
      last_look_ = now;
      if (!sink.client_alive()) return std::nullopt;
      if (now - last_sent_ >= kPingInterval && !send(sink, plan_.stream ? kStreamPing : kJsonPing))
        return std::nullopt;
    }
    if (event) return event;
  }
}

bool Answer::send(ResponseSink& sink, std::string_view bytes) {
  last_sent_ = world_.now();
  return sink.write(bytes);
}

bool Answer::send_pieces(ResponseSink& sink, std::vector<Json> pieces) {
  std::string bytes;  // what one event made goes out in one write
  for (Json& piece : pieces) {
    Json data = chunk(plan_.head, Json::array({std::move(piece)}));
    if (plan_.include_usage) data["usage"] = nullptr;
    bytes += sse_event(data);
  }
  return bytes.empty() || send(sink, bytes);
}

/// The status is out. A stream can still say what happened; a part of a JSON answer must not look whole.
bool Answer::send_failure(ResponseSink& sink, const ApiError& error) {
  failed_ = true;
  if (!plan_.stream) return false;
  std::string event = "data: ";
  event += error_json(error);
  event += "\n\n";
  return send(sink, event);
}

bool Answer::send_end(ResponseSink& sink) {
  if (!plan_.stream)
    return send(sink, json_text(whole_answer(plan_.head, choices_.whole(), choices_.usage())));
  std::string bytes;
  if (plan_.include_usage) {
    Json data = chunk(plan_.head, Json::array());
    data["usage"] = usage_json(choices_.usage());
    bytes += sse_event(data);
  }
  bytes += "data: [DONE]\n\n";
  return send(sink, bytes);
}

}  // namespace hearth
