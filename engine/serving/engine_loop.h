// The engine thread's work: admit, plan, forward, sample, publish; and what other threads may ask of it
// meanwhile.
//
// Threads meet in four places only: the RequestQueue (its mutex), the TokenStreams (theirs), idle_work_ (its
// mutex), and the counters here (atomics). Everything else belongs to the engine thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "engine/serving/batch.h"
#include "engine/serving/kv_blocks.h"
#include "engine/serving/request_queue.h"
#include "engine/serving/sampler.h"
#include "engine/serving/scheduler.h"
#include "engine/serving/sequence.h"

namespace hearth {

class Engine::Loop {
 public:
  /// Throws std::invalid_argument if the model's limits and the options do not fit together. Starts the
  /// thread.
  Loop(ForwardModel& model, EngineOptions options);
  /// Cancels what runs and waits, and joins: takes one step of the model at most.
  ~Loop();

  // -- any thread --
  std::variant<std::shared_ptr<TokenStream>, Refusal> submit(GenerationRequest request);
  void when_idle(IdleWork work);
  EngineStatus status() const;
  const EngineOptions& options() const { return options_; }
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
  void drop_cancelled();
  void admit();
  void build_batch(std::span<const StepPiece> pieces);
  std::span<const float> run_model();
  void finish_piece(const StepPiece& piece, std::span<const float> logits);
  bool publish_prompt_logprobs(const StepPiece& piece, std::span<const float> logits);
  void choose_token(int slot, std::span<const float> row);
  void finish_slot(int slot, FinishReason reason, std::string error = {});
  void finish_waiting(std::unique_ptr<Sequence> sequence, FinishReason reason, const std::string& error);
  void finish_everything(FinishReason reason, const std::string& error);
  void fail(const std::string& why);

  ForwardModel& model_;
  const EngineOptions options_;
  const StepLimits limits_;
  RequestQueue queue_;

  // Engine thread only.
  KvBlocks blocks_;
  Scheduler scheduler_;
  Sampler sampler_;
  Batch batch_;
  std::vector<std::unique_ptr<Sequence>> new_sequences_;  // scratch of take_new
  std::vector<int32_t> top_ids_;                          // scratch of add_logprobs
  std::vector<StepPiece> pieces_;  // this step's; finishing a sequence must not change it

  // Written by the engine thread (last_request_id_: by submitters), read by any.
  std::atomic<uint64_t> last_request_id_{0};
  std::atomic<uint64_t> n_steps_{0}, n_prompt_tokens_{0}, n_cached_tokens_{0}, n_generated_tokens_{0};
  std::atomic<Clock::rep> heartbeat_{0};
  std::atomic<bool> failed_{false};
  std::string failure_;  // written before failed_ becomes true, and never again
  std::mutex idle_work_mutex_;
  IdleWork idle_work_;            // not begun; empty: none
  std::atomic<bool> cut_{false};  // set by drain: cancel everything now

  std::jthread thread_;  // last, so that it starts when the rest is there and has ended when the rest goes
};

}  // namespace hearth
