// Sends one answer: waits for the engine's events, looks after the client, writes JSON or server-sent events.
//
// Made by ApiService once the engine has accepted the request; await() runs on the HTTP thread before the
// status line is out, produce() after it. Destroying an Answer cancels what still runs for it, so a client
// that left early costs nothing.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>

#include "engine/serving/token_stream.h"
#include "server/api/api_world.h"
#include "server/api/choices.h"
#include "server/http/http_types.h"

namespace hearth {

class Answer {
 public:
  /// The tokenizer must outlive this.
  Answer(AnswerPlan plan, const Tokenizer& tokenizer, std::shared_ptr<TokenStream> events, ApiWorld world);
  ~Answer();
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;

  /// Waits shortly for the first event. If it says that the request has failed, there is still time for a
  /// status.
  std::optional<ApiError> look_ahead(std::chrono::milliseconds timeout);

  /// Of an answer that is sent whole: waits until it is complete, has failed or its client must be told that
  /// the server lives, and returns the failure, for which there is still time for a status.
  std::optional<ApiError> await(ResponseClient& client);

  /// Writes the body; see HttpResponse::produce. Call once.
  bool produce(ResponseSink& sink);

 private:
  bool produce_events(ResponseSink& sink);
  bool send(ResponseSink& sink, std::string_view bytes);
  bool send_pieces(ResponseSink& sink, std::vector<Json> pieces);
  bool send_failure(ResponseSink& sink, const ApiError& error);
  bool send_end(ResponseSink& sink);
  std::optional<StreamEvent> next_event(ResponseSink& sink);
  StreamEvent take_early();
  Choices::Step take(StreamEvent event);

  const AnswerPlan plan_;
  Choices choices_;
  std::shared_ptr<TokenStream> events_;
  ApiWorld world_;
  std::deque<StreamEvent> early_;  // taken by look_ahead
  std::chrono::steady_clock::time_point last_sent_, last_look_;
  bool failed_ = false;
};

}  // namespace hearth
