// Records which experts a mixture's tokens choose while the model serves, as a trace
// (engine/activity/expert_trace.h).
//
// The engine thread records in its own memory. A thread of the Recording copies that every few minutes and
// writes the file, so the engine thread never waits for a disk. hearthd owns the ServedTrace, and each loaded
// model its Recording. A model that is unloaded and loaded again continues the trace.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "engine/activity/expert_trace.h"
#include "engine/model_runtime.h"
#include "kernels/base/mutex.h"

namespace hearth {

struct ServedTraceOptions {
  std::filesystem::path file;
  /// Most bytes of memory for the trace, and most bytes of the file. Recording ends when they are used up.
  uint64_t max_bytes = 64 << 20;
  std::chrono::milliseconds write_every{std::chrono::minutes(5)};
  /// Called with one sentence if a model is not recorded, if the trace is full, or if the file cannot be
  /// written (once while the same failure lasts). On the thread that calls record() or finish(), or on the
  /// writing thread. May be empty.
  std::function<void(const std::string& sentence)> warn = {};
};

class ServedTrace {
 public:
  /// Throws std::runtime_error (one sentence) if the file cannot be written.
  explicit ServedTrace(ServedTraceOptions options);
  ServedTrace(const ServedTrace&) = delete;
  ServedTrace& operator=(const ServedTrace&) = delete;

  /// Records a model's tokens from its creation to finish().
  class Recording {
   public:
    /// For ServedTrace::record().
    Recording(ServedTrace& trace, ModelRuntime& model, int max_tokens);
    /// Calls finish().
    ~Recording();
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;

    /// Discards what was recorded so far, and begins to write from time to time. Call it once, before the
    /// engine starts, after the model was warmed up.
    void begin();
    /// Ends the thread, and writes all that was recorded. No token is lost if the engine has run its last
    /// step before this call. Any thread; may be called more than once.
    void finish();
    const ServedTrace& trace() const { return trace_; }

   private:
    void run(const std::stop_token& stop);
    void write();
    bool has_filled() const;

    ServedTrace& trace_;
    ModelRuntime& model_;
    const int max_tokens_;
    Mutex ending_;  // held by finish()
    Mutex mutex_;   // for wake_
    std::condition_variable_any wake_;
    std::jthread thread_;  // starts in begin()
  };

  /// Begins to record the model. Returns null, after a warning, if the trace is full or if the model is not
  /// the first one of this object or has no experts. The model and this object must outlive the Recording.
  /// Call it before the model's engine starts. REQUIRES: no other Recording of this object exists.
  std::unique_ptr<Recording> record(ModelRuntime& model);

  const std::filesystem::path& file() const { return options_.file; }

  // -- after finish() --

  /// Whether the file has all tokens that were recorded; if not, warn() said why.
  bool is_written() const { return n_written_ == n_tokens(); }
  uint64_t n_tokens() const { return kept_ ? kept_->trace().n_tokens() : 0; }
  uint64_t n_sequences() const { return kept_ ? kept_->trace().n_sequences() : 0; }

 private:
  void warn(const std::string& sentence) const;
  void write(const ExpertTraceWriter& trace);
  void close();

  const ServedTraceOptions options_;
  // The members below belong to the Recording while there is one.
  std::optional<ExpertTraceWriter> kept_;  // of finished Recordings; nullopt: no model was recorded yet
  bool full_ = false;
  uint64_t n_written_ = 0;  // tokens in the file
  std::string last_failure_;
};

}  // namespace hearth
