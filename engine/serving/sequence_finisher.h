// Ends sequences: takes them out of the scheduler, frees their slot, counts them, and pushes their last
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
  /// All three must outlive it. Ended sequences are counted in `figures`.
  SequenceFinisher(Scheduler& scheduler, RequestQueue& queue, EngineFigures& figures);

  /// Ends the sequence in this slot. After kFailed the prefix cache keeps nothing of it, because its keys and
  /// values may be wrong.
  void finish_slot(int slot, const SequenceEnd& end);
  /// Ends the sequences whose results nobody needs: with kCancelled if they were cancelled, with kTimedOut if
  /// their deadline has passed.
  void finish_unwanted();
  /// Ends all sequences in slots and all waiting ones.
  void finish_all(const SequenceEnd& end);

  /// Mean time that sequences held a slot; 0 before the first has ended. Any thread.
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
