// The long-lived engine: a bounded queue of requests, slots that run them together, one thread that owns the
// model.
//
// Any thread may submit, ask for status or stop; only the engine thread touches model state. Each step: admit
// what fits, take the decode token of every running sequence first, then a chunk of prefill, forward, sample,
// publish events.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>

#include "engine/serving/batch.h"
#include "engine/serving/request.h"
#include "engine/serving/token_stream.h"

namespace hearth {

struct EngineOptions {
  int n_slots = 4;            // sequences that run at once
  int context_tokens = 4096;  // prompt plus generated tokens of one sequence, at most
  int queue_capacity = 64;    // requests that wait, at most; 0: only what a free slot can take at once
  int prefill_chunk = 128;    // prompt tokens of one step, at most, so that running streams go on
};

struct EngineStatus {
  int n_slots = 0;
  int n_running = 0;     // sequences in slots
  int n_waiting = 0;     // requests in the queue, not wholly admitted
  uint64_t n_steps = 0;  // steps since start
  uint64_t n_prompt_tokens = 0, n_cached_tokens = 0, n_generated_tokens = 0;  // totals since start
  bool failed = false;  // the engine thread ended by an exception; everything is refused
  std::string failure;  // what that exception said; empty unless failed
  std::chrono::steady_clock::time_point
      heartbeat;  // last beat; the idle engine beats too, at least once a second
};

/// What the engine thread is given to do between requests. It calls `go_on` every second at least, or the
/// engine looks stuck; false: the engine stops, and what the model has in memory is of no use any more.
using IdleWork = std::function<void(const std::function<bool()>& go_on)>;

class Engine {
 public:
  /// Starts the engine thread. The model must outlive the engine.
  Engine(ForwardModel& model, EngineOptions options);
  /// Stops: cancels what runs and joins.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Queues a request, all its sequences or none. Never blocks on the model. A sequence whose prompt +
  /// max_tokens exceeds context_tokens is kContextExceeded. Thread-safe.
  std::variant<std::shared_ptr<TokenStream>, Refusal> submit(GenerationRequest request);

  /// Has `work` called on the engine thread, once, as soon as no sequence runs and none waits; whoever comes
  /// meanwhile waits for its end. It may change all that the model has in memory, but not limits(): keys and
  /// values of earlier prompts are forgotten. If it throws, the engine has failed. A second call before the
  /// first one's work has begun takes its place; work not begun when the engine stops is never called. Any
  /// thread.
  void when_idle(IdleWork work);

  EngineStatus status() const;
  const EngineOptions& options() const;

  /// Refuses new requests from now on (kStopping) and waits until all accepted ones have finished, or until
  /// the deadline, when what still runs is cancelled. Returns true if nothing had to be cancelled. Any
  /// thread.
  bool drain(std::chrono::steady_clock::time_point deadline);

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace hearth
