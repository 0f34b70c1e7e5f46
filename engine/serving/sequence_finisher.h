// Ends sequences: removes them from the scheduler, frees their slots, counts them, and pushes their last
// event.
//
// Owned by the Engine; engine thread only, except mean_service_seconds().
#pragma once

#include <memory>

#include "engine/serving/engine_figures.h"
#include "engine/serving/request_queue.h"
#include "engine/serving/scheduler.h"
#include "engine/serving/sequence.h"
#include "engine/serving/service_time.h"

namespace hearth {

class SequenceFinisher {
 public:
  /// All three arguments must outlive this object. Ended sequences are counted in `figures`.
  SequenceFinisher(Scheduler& scheduler, RequestQueue& queue, EngineFigures& figures);

  /// Ends the sequence in this slot. If it ends with kFailed, the prefix cache keeps none of its KV blocks,
  /// because their contents may be wrong.
  void finish_slot(int slot, const SequenceEnd& end);
  /// Ends the sequences whose results are no longer needed. The reason is kCancelled for cancelled sequences,
  /// and kTimedOut for others whose deadline has passed.
  void finish_unwanted();
  /// Ends all running sequences and all waiting ones.
  void finish_all(const SequenceEnd& end);

  /// The mean time that sequences held a slot; 0 until the first sequence has ended. Any thread.
  double mean_service_seconds() const { return service_time_.mean_seconds(); }

 private:
  void finish_waiting(std::unique_ptr<Sequence> sequence, const SequenceEnd& end);
  void count(const FinishedEvent& event);

  Scheduler& scheduler_;
  RequestQueue& queue_;
  EngineFigures& figures_;
  ServiceTime service_time_;
};

}  // namespace hearth
