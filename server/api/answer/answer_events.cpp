// See the header.
#include "server/api/answer/answer_events.h"

namespace hearth {
namespace {

/// Interval of the checks whether the client is connected. Twenty checks a second cost almost nothing.
constexpr std::chrono::milliseconds kLookInterval{50};
/// The maximum wait for the end of a cancelled request. The engine ends it within one step, which rarely
/// takes a second.
constexpr std::chrono::milliseconds kSettleTime{1000};

}  // namespace

AnswerEvents::AnswerEvents(std::shared_ptr<TokenStream> stream, std::chrono::seconds silence, Clock now)
    : stream_(std::move(stream)),
      silence_(silence),
      now_(std::move(now)),
      last_sent_(now_()),
      last_look_(last_sent_) {}

std::optional<StreamEvent> AnswerEvents::pop_for(std::chrono::milliseconds timeout) {
  return early_ ? std::exchange(early_, std::nullopt) : stream_->pop_for(timeout);
}

std::optional<StreamEvent> AnswerEvents::next(ResponseWriter& writer, const std::function<bool()>& ping) {
  if (early_) return std::exchange(early_, std::nullopt);
  while (true) {
    std::optional<StreamEvent> event = stream_->pop_for(kLookInterval);
    const auto now = now_();
    // Check the client even while events arrive quickly, because an answer may send nothing for minutes.
    if (!event || now - last_look_ >= kLookInterval) {
      last_look_ = now;
      const bool ping_due = silence_.count() > 0 && now - last_sent_ >= silence_;
      if (!writer.client_alive() || (ping_due && !ping())) {
        early_ = std::move(event);  // the access log must count this event
        return std::nullopt;
      }
    }
    if (event) return event;
  }
}

std::optional<StreamEvent> AnswerEvents::next_after_cancel() {
  stream_->cancel();
  return pop_for(kSettleTime);
}

}  // namespace hearth
