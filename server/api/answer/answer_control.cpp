// See the header.
#include "server/api/answer/answer_control.h"

namespace hearth {

void AnswerControl::attach(const std::shared_ptr<TokenStream>& events) {
  const MutexLock lock(mutex_);
  events_ = events;
  if (cancelled_) events->cancel();
}

void AnswerControl::cancel() {
  const MutexLock lock(mutex_);
  cancelled_ = true;
  if (const std::shared_ptr<TokenStream> events = events_.lock()) events->cancel();
}

bool AnswerControl::cancelled() const {
  const MutexLock lock(mutex_);
  return cancelled_;
}

}  // namespace hearth
