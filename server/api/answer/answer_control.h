// Lets another thread cancel an answer that is still being generated.
//
// Shared by the answer and the threads that may cancel it. A cancelled answer is not a failure: the generated
// part is sent, marked as cancelled.
#pragma once

#include <memory>

#include "engine/serving/token_stream.h"
#include "kernels/base/mutex.h"

namespace hearth {

class AnswerControl {
 public:
  /// Called once, by the thread that submitted the request. Cancels the request at once if cancel() was
  /// called before.
  void attach(const std::shared_ptr<TokenStream>& events);

  /// Ends the engine's request within one step. Any thread; idempotent.
  void cancel();
  bool cancelled() const;

 private:
  mutable Mutex mutex_;
  std::weak_ptr<TokenStream> events_ HEARTH_GUARDED_BY(mutex_);
  bool cancelled_ HEARTH_GUARDED_BY(mutex_) = false;
};

}  // namespace hearth
