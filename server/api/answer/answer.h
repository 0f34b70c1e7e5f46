// Sends one answer: waits for the engine's events, checks that the client is still connected, and writes the
// bytes that the answer's shape makes from the events.
//
// Made by respond() after the engine has accepted the request; runs on the HTTP thread, or on a thread of
// BackgroundAnswers.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string_view>

#include "engine/serving/token_stream.h"
#include "server/api/answer/answer_events.h"
#include "server/api/answer/answer_shape.h"
#include "server/api/answer/choices.h"
#include "server/api/answer/reply.h"
#include "server/http/response_writer.h"

namespace hearth {

class Answer final : public PendingAnswer {
 public:
  /// shape: not null. now: the clock for pings. The tokenizer must outlive this object.
  Answer(AnswerSpec spec, std::unique_ptr<AnswerShape> shape, const Tokenizer& tokenizer,
         std::shared_ptr<TokenStream> events, AnswerEvents::Clock now);

  /// Waits up to `timeout` for the first event. If that event reports a failure, returns the failure, and
  /// run() must not be called. Call at most once.
  std::optional<ApiError> look_ahead(std::chrono::milliseconds timeout);

  /// Sends the answer. A stream begins at once. An unstreamed answer sends its status when it is complete, so
  /// that a failure gets an error status, but no later than the first blank line that keeps a silent
  /// connection open. A client that leaves before the status is sent gets 499, which only the log shows.
  void run(ResponseWriter& writer) override;

 private:
  enum class Outcome { kComplete, kFailed, kClientLeft };
  Outcome answer(ResponseWriter& writer);
  Choices::Update take(StreamEvent event);
  void settle();

  bool begin_stream(ResponseWriter& writer);
  bool send_update(ResponseWriter& writer, const Choices::Update& update);
  void send_failure(ResponseWriter& writer, const ApiError& error);
  bool send_end(ResponseWriter& writer);
  bool ping(ResponseWriter& writer);
  bool write(ResponseWriter& writer, std::string_view bytes);

  const AnswerSpec spec_;
  const std::unique_ptr<AnswerShape> shape_;
  Choices choices_;
  AnswerEvents events_;
  bool begun_ = false;  // the status was sent; the body follows in pieces
};

}  // namespace hearth
