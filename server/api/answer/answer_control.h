// By which another thread ends an answer that is still being generated.
//
// Shared by the answer and by whoever may end it. An answer that was ended so is no failure: what has been generated
// is sent, marked as cancelled.
#pragma once

#include <memory>

#include "engine/serving/token_stream.h"
#include "kernels/base/mutex.h"

namespace hearth {

class AnswerControl {
 public:
  /// Called once, by the thread that has submitted the request. If cancel() was called before, the request ends at once.
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
