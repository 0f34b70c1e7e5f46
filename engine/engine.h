// The engine: a bounded queue of requests, slots in which their sequences run together, and one thread that
// owns the model.
//
// Any thread may submit requests, read the status or stop the engine; only the engine thread touches model
// state. In each step, the engine thread admits the requests that fit (Scheduler) and builds a batch. The
// batch has one decode token for every running sequence, the draft tokens that may follow it (Speculation),
// and a chunk of prompt tokens. The thread then runs the forward pass, publishes the results of each sequence
// (PieceResults), and removes the sequences that have ended (SequenceFinisher).
//
// Threads share state in six places only: the RequestQueue and the TokenStreams (each has its own mutex),
// idle_work_ (idle_work_mutex_), published_ (published_mutex_), the mean service time (SequenceFinisher, an
// atomic), and the counters and flags below (atomics). Everything else belongs to the engine thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "engine/generation/piece_results.h"
#include "engine/generation/speculation.h"
#include "engine/kv/kv_blocks.h"
#include "engine/serving/disk_prefixes.h"
#include "engine/serving/engine_figures.h"
#include "engine/serving/request.h"
#include "engine/serving/request_queue.h"
#include "engine/serving/scheduler.h"
#include "engine/serving/sequence.h"
#include "engine/serving/sequence_finisher.h"
#include "engine/serving/token_stream.h"
#include "engine/step/batch.h"
#include "kernels/base/mutex.h"

namespace hearth {

struct EngineOptions {
  int n_slots = 4;            // maximum number of sequences that run at once
  int context_tokens = 4096;  // maximum number of tokens of one sequence, prompt and generated
  int queue_capacity = 512;  // maximum number of waiting requests; 0: accept only what free slots can run now
  int prefill_chunk = 128;   // maximum number of prompt tokens in one step
  /// maximum number of prompt tokens in a step that also has decoding sequences; 0: prefill_chunk
  int prefill_beside = 0;
  SpeculationOptions speculation = {};  // whether tokens are drafted
  DiskCacheOptions disk = {};           // where prefixes are kept on disk, if the model's can be
  int promise_tokens = kPromiseTokens;  // generated tokens that one promise of KV blocks covers (scheduler.h)
};

struct EngineStatus {
  int n_slots = 0;
  int n_running = 0;     // sequences in slots
  int n_waiting = 0;     // requests with a sequence that still waits for a slot
  uint64_t n_steps = 0;  // steps since start
  uint64_t n_prompt_tokens = 0, n_cached_tokens = 0, n_generated_tokens = 0;  // totals since start
  bool speculates = false;                                                    // drafts are enabled
  uint64_t n_drafted_tokens = 0;    // draft tokens computed since start
  uint64_t n_accepted_tokens = 0;   // draft tokens accepted since start
  uint64_t n_set_back = 0;          // how often a sequence was set back (scheduler.h) since start
  double mean_service_seconds = 0;  // mean time of a sequence in a slot (ServiceTime); 0: none ended yet
  bool failed = false;              // an exception ended the engine thread; every request is refused
  std::string failure;              // the message of that exception; empty unless failed
  /// Time at which the engine thread last completed a round of its loop. An idle engine completes a round at
  /// least once a second.
  std::chrono::steady_clock::time_point heartbeat;
};

/// Work that the engine thread does while no sequence runs or waits. The work must call `go_on` at least once
/// a second, or the engine appears stuck. If `go_on` returns false, the engine is stopping or cancelling all
/// work. In this case, the work must return without running the model again.
using IdleWork = std::function<void(const std::function<bool()>& go_on)>;

/// The interface through which the server uses the engine. Engine implements it; tests of the server have
/// their own implementations.
class TokenGenerator {
 public:
  virtual ~TokenGenerator() = default;
  /// Queues all sequences of a request, or none of them. Never waits for the model. Any thread.
  virtual std::variant<std::shared_ptr<TokenStream>, Refusal> submit(GenerationRequest request) = 0;
  /// Any thread.
  virtual EngineStatus status() const = 0;
  /// Returns the figures as of the last step. Any thread; does not wait for a step.
  virtual EngineFigures figures() const { return {}; }
};

class Engine final : public TokenGenerator {
 public:
  /// Starts the engine thread. The model must outlive the engine, and nothing else may use it meanwhile: the
  /// engine reads the model's figures even while it waits for requests. Throws std::invalid_argument if the
  /// model's limits do not allow the options (checked_limits()).
  Engine(ForwardModel& model, const EngineOptions& options);
  /// Cancels running and waiting sequences and joins the thread. Joining takes at most one step of the model.
  ~Engine() override;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Queues all sequences of a request, or none of them. Never waits for the model. Returns kContextExceeded
  /// if a sequence's prompt and max_tokens together exceed context_tokens. Any thread.
  std::variant<std::shared_ptr<TokenStream>, Refusal> submit(GenerationRequest request) override;

  /// Calls `work` once on the engine thread, as soon as no sequence runs or waits. Requests that arrive
  /// meanwhile wait until `work` returns. `work` may change everything that the model holds in memory, except
  /// the result of the model's limits(). Afterward the engine discards the keys and values of earlier
  /// prompts. If `work` throws, the engine fails (EngineStatus::failed). A second call replaces work that has
  /// not begun. If the engine stops first, `work` is never called. Any thread.
  void when_idle(IdleWork work);

  EngineStatus status() const override;
  EngineFigures figures() const override;
  const EngineOptions& options() const { return options_; }

  /// Refuses new requests from now on (kStopping) and waits until all accepted requests have finished. At the
  /// deadline, cancels the requests that are left. Returns true if nothing had to be cancelled. Any thread.
  bool drain(std::chrono::steady_clock::time_point deadline);

 private:
  using Clock = std::chrono::steady_clock;

  KvBlocks empty_blocks() const;
  void run(const std::stop_token& stop);
  void serve(const std::stop_token& stop);
  void step();
  void beat() { heartbeat_.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed); }

  bool do_idle_work(const std::stop_token& stop);
  void take_new();
  void admit();
  void start_disk();
  void continue_after_read(Sequence& sequence);
  void count_set_back(const Sequence& sequence);
  StepOutput run_model();
  int finish_piece(const StepPiece& piece, StepOutput& rest);
  void count_tokens(const StepPiece& piece, const ChosenTokens& chosen);
  void count_prompt(Sequence& sequence);
  void record_figures(const StepRecord& step, double schedule_seconds, double choose_seconds);
  void publish_figures();
  void fail(const std::string& why);

  ForwardModel& model_;
  const EngineOptions options_;
  const StepLimits limits_;
  RequestQueue queue_;

  // Engine thread only.
  EngineFigures figures_;
  KvBlocks blocks_;
  Scheduler scheduler_;
  PieceResults results_;
  Speculation speculation_;
  Batch batch_;
  std::vector<std::unique_ptr<Sequence>> new_sequences_;  // scratch of take_new
  uint64_t n_sequences_ = 0;                              // number of sequences taken from the queue
  std::vector<StepPiece> pieces_;  // copy of the step's pieces, because the scheduler's list changes when a
                                   // sequence finishes

  std::unique_ptr<DiskPrefixes> disk_;  // null: no prefix is kept on disk

  SequenceFinisher finisher_;  // engine thread only; any thread may read the mean service time

  // The engine thread writes these members, except last_request_id_, which submitting threads write. Any
  // thread may read them.
  std::atomic<uint64_t> last_request_id_{0};
  std::atomic<uint64_t> n_steps_{0}, n_prompt_tokens_{0}, n_cached_tokens_{0}, n_generated_tokens_{0};
  std::atomic<uint64_t> n_drafted_tokens_{0}, n_accepted_tokens_{0}, n_set_back_{0};
  std::atomic<Clock::rep> heartbeat_{0};
  std::atomic<bool> failed_{false};
  std::string failure_;  // written once, before failed_ becomes true
  Mutex idle_work_mutex_;
  IdleWork idle_work_ HEARTH_GUARDED_BY(idle_work_mutex_);  // work that has not begun; empty if there is none
  std::atomic<bool> cut_{false};                            // drain()'s deadline has passed: cancel all
                                                            // requests
  mutable Mutex published_mutex_;
  EngineFigures published_ HEARTH_GUARDED_BY(published_mutex_);  // a copy of figures_

  std::jthread thread_;  // last member, so that the thread runs only while all other members exist
};

}  // namespace hearth
