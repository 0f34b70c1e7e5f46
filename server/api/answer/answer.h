// Sends one answer: waits for the engine's events, checks that the client is still there, and writes what the
// answer's shape makes of them.
//
// Made by respond() after the engine has accepted the request. look_ahead() and await() run on the HTTP
// thread before the status line is sent, produce() after it. Destroying an Answer cancels its remaining work,
// so a client that left early costs nothing.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "engine/serving/token_stream.h"
#include "server/api/answer/answer_shape.h"
#include "server/api/answer/choices.h"
#include "server/http/http_types.h"

namespace hearth {

class Answer {
 public:
  using Clock = std::function<std::chrono::steady_clock::time_point()>;

  /// shape: not null. now: the clock for pings. The tokenizer must outlive this.
  Answer(AnswerSpec spec, std::unique_ptr<AnswerShape> shape, const Tokenizer& tokenizer,
         std::shared_ptr<TokenStream> events, Clock now);
  ~Answer();
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;

  /// Waits up to `timeout` for the first event. Returns the failure if that event reports one; its error
  /// status can still be sent.
  std::optional<ApiError> look_ahead(std::chrono::milliseconds timeout);

  /// For an unstreamed answer: waits until it is complete, has failed, its client has left or the first blank
  /// line is due. Returns the failure, or status 499 (seen only in the log) if the client has left; either
  /// can still be sent.
  std::optional<ApiError> await(ResponseClient& client);
  /// Call once, after await() returned no failure. Returns the body if it is complete, or nullopt if
  /// produce() has to write it.
  std::optional<std::string> whole(ResponseClient& client);

  /// Writes the body; see HttpResponse::produce. Call once.
  bool produce(ResponseSink& sink);

  const AnswerShape& shape() const { return *shape_; }

 private:
  bool produce_events(ResponseSink& sink);
  bool send(ResponseSink& sink, std::string_view bytes);
  bool send_begin(ResponseSink& sink);
  bool send_update(ResponseSink& sink, const Choices::Update& update);
  bool send_failure(ResponseSink& sink, const ApiError& error);
  bool send_end(ResponseSink& sink);
  void settle();
  std::chrono::seconds ping_interval() const;
  std::optional<StreamEvent> next_event(ResponseSink& sink);
  StreamEvent take_early();
  Choices::Update take(StreamEvent event);

  const AnswerSpec spec_;
  const std::unique_ptr<AnswerShape> shape_;
  Choices choices_;
  std::shared_ptr<TokenStream> events_;
  Clock now_;
  std::deque<StreamEvent> early_;  // events taken by look_ahead()
  std::chrono::steady_clock::time_point last_sent_, last_look_;
  bool failed_ = false;
};

}  // namespace hearth
