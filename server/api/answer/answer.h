// Sends one answer to its client: waits for the engine's events, converts them to bytes with an AnswerShape,
// and stops if the client disconnects.
//
// respond() creates an Answer after the engine has accepted the request. The Answer runs on the HTTP thread,
// or on a thread of BackgroundAnswers.
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
  /// shape: not null. now: the clock that decides when pings are due. The tokenizer must outlive this object.
  Answer(AnswerSpec spec, std::unique_ptr<AnswerShape> shape, const Tokenizer& tokenizer,
         std::shared_ptr<TokenStream> events, AnswerEvents::Clock now);

  /// Waits up to `timeout` for the first event. If the event reports a failure, returns the failure, and
  /// run() must not be called. Call at most once.
  std::optional<ApiError> look_ahead(std::chrono::milliseconds timeout);

  /// Sends the answer. A stream sends its status immediately. An unstreamed answer sends its status when the
  /// answer is complete, so that a failure can have an error status. If blank lines must keep the silent
  /// connection open, the status precedes the first blank line. If the client disconnects before the status
  /// is sent, the access log shows 499.
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
  bool begun_ = false;  // whether the status has been sent
};

}  // namespace hearth
