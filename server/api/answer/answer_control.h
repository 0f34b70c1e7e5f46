// Lets another thread cancel an answer that is still being generated.
//
// Shared by the answer and the threads that may cancel it. A cancelled answer is not a failure: the client
// gets the text generated so far, marked as cancelled.
#pragma once

#include <memory>

#include "engine/serving/token_stream.h"
#include "kernels/base/mutex.h"

namespace hearth {

class AnswerControl {
 public:
  /// Stores the engine's request, which cancel() cancels. If cancel() was called before attach(), cancels the
  /// request immediately. Called once, by the thread that submitted the request.
  void attach(const std::shared_ptr<TokenStream>& events);

  /// Makes the engine end the request within one step. Any thread may call it; later calls have no effect.
  void cancel();
  bool cancelled() const;

 private:
  mutable Mutex mutex_;
  std::weak_ptr<TokenStream> events_ HEARTH_GUARDED_BY(mutex_);
  bool cancelled_ HEARTH_GUARDED_BY(mutex_) = false;
};

}  // namespace hearth
