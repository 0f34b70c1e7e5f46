// Waits for the engine's events of one answer, and checks meanwhile whether the client is still connected.
//
// A disconnected client is detected within 50 ms, even while events arrive quickly. A ping is sent if the
// client has received nothing for a while. Each Answer has one AnswerEvents, used by the Answer's thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "engine/serving/token_stream.h"
#include "server/http/response_writer.h"

namespace hearth {

class AnswerEvents {
 public:
  using Clock = std::function<std::chrono::steady_clock::time_point()>;

  /// stream: not null. silence: time without output after which a ping is due; 0: no pings. now: the clock.
  AnswerEvents(std::shared_ptr<TokenStream> stream, std::chrono::seconds silence, Clock now);
  /// Cancels the request.
  ~AnswerEvents() { cancel(); }
  AnswerEvents(const AnswerEvents&) = delete;
  AnswerEvents& operator=(const AnswerEvents&) = delete;

  /// Returns the next event, or nullopt if none arrives within the timeout. Does not check the client.
  std::optional<StreamEvent> pop_for(std::chrono::milliseconds timeout);
  /// Makes `event` the next event to be returned. At most one event can be put back at a time.
  void put_back(StreamEvent event) { early_ = std::move(event); }

  /// Waits for the next event. Calls `ping` whenever a ping is due. Returns nullopt if the client has
  /// disconnected or `ping` returns false.
  std::optional<StreamEvent> next(ResponseWriter& writer, const std::function<bool()>& ping);
  /// Call after bytes were sent to the client, to restart the time until the next ping.
  void sent() { last_sent_ = now_(); }

  /// Cancels the request and returns its next event, or nullopt if none arrives within a second. The caller
  /// reads events until the last one of each sequence, which contains the sequence's times.
  std::optional<StreamEvent> next_after_cancel();

  void cancel() { stream_->cancel(); }
  void cancel_sequence(int sequence) { stream_->cancel_sequence(sequence); }

 private:
  const std::shared_ptr<TokenStream> stream_;
  const std::chrono::seconds silence_;
  const Clock now_;
  std::optional<StreamEvent> early_;  // the event that was put back
  std::chrono::steady_clock::time_point last_sent_, last_look_;
};

}  // namespace hearth
