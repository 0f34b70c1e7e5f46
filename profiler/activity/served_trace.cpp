// See the header.
#include "profiler/activity/served_trace.h"

#include <algorithm>
#include <climits>
#include <new>
#include <stdexcept>
#include <utility>

#include "kernels/base/file_error.h"
#include "kernels/base/whole_file.h"

namespace hearth {
namespace {

using Clock = std::chrono::steady_clock;
using file_error::with_commas;

// How often the thread looks whether the trace is full, so that the log says so soon.
constexpr std::chrono::milliseconds kLook{1000};
constexpr const char* kNoMemory = "there is not enough memory to write the trace";

/// The number of a model's tokens for which max_bytes suffice.
uint64_t token_limit(const ModelSpec& spec, uint64_t max_bytes) {
  const uint64_t limit = max_bytes / ExpertRecorder::token_bytes(spec.n_layers, spec.mixture.n_used);
  return std::clamp<uint64_t>(limit, 1, INT_MAX);
}

}  // namespace

ServedTrace::ServedTrace(ServedTraceOptions options) : options_(std::move(options)) {
  check_writable(options_.file);
}

std::unique_ptr<ServedTrace::Recording> ServedTrace::record(ModelRuntime& model) {
  const ModelSpec& spec = model.facts().spec;
  const std::string kNot = "the tokens of this model are not recorded: ";
  if (!spec.has_experts()) {
    warn(kNot + "it is no mixture of experts");
    return nullptr;
  }
  const ModelIdentity identity = identify(model.facts().file, spec);
  if (kept_ && !kept_->trace().model.same_model(identity)) {
    warn(kNot + file_error::file_label(options_.file.string()) + " is the trace of another model");
    return nullptr;
  }
  if (!kept_) {
    kept_.emplace(model.observation().trace_writer(identity, token_limit(spec, options_.max_bytes)));
  }
  const uint64_t room = kept_->max_tokens() - kept_->trace().n_tokens();
  if (full_ || room == 0) {
    warn(kNot + "the trace is full");
    return nullptr;
  }
  return std::make_unique<Recording>(*this, model, static_cast<int>(room));
}

void ServedTrace::warn(const std::string& sentence) const {
  if (options_.warn) options_.warn(sentence);
}

/// Writes the file if it lacks tokens of the trace.
void ServedTrace::write(const ExpertTraceWriter& trace) {
  std::string failure;
  try {
    if (trace.trace().n_tokens() == n_written_) return;
    trace.write(options_.file);
    n_written_ = trace.trace().n_tokens();
  } catch (const std::bad_alloc&) {
    failure = kNoMemory;
  } catch (const std::runtime_error& error) {
    failure = error.what();
  }
  if (!failure.empty() && failure != last_failure_) warn(failure);
  last_failure_ = failure;
}

/// Ends the recording because the trace is full.
void ServedTrace::close() {
  full_ = true;
  warn("the trace is full with " + with_commas(n_written_) + " tokens; later tokens are not recorded");
}

ServedTrace::Recording::Recording(ServedTrace& trace, ModelRuntime& model, int max_tokens)
    : trace_(trace), model_(model), max_tokens_(max_tokens) {
  model_.observation().record_experts(max_tokens_);
}

ServedTrace::Recording::~Recording() { finish(); }

void ServedTrace::Recording::begin() {
  model_.observation().record_experts(max_tokens_);
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void ServedTrace::Recording::finish() {
  const MutexLock ending(ending_);
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
  const bool fills = has_filled();
  model_.observation().take_experts(*trace_.kept_);
  trace_.write(*trace_.kept_);
  if (fills) trace_.close();
}

/// Whether the trace became full since the last look.
bool ServedTrace::Recording::has_filled() const {
  return !trace_.full_ && model_.observation().recorder()->full();
}

void ServedTrace::Recording::run(const std::stop_token& stop) {
  const std::chrono::milliseconds look = std::min(kLook, trace_.options_.write_every);
  Clock::time_point last_write = Clock::now();
  for (;;) {
    {
      MutexLock lock(mutex_);
      wake_.wait_for(lock.for_wait(), stop, look, [] { return false; });
    }
    if (stop.stop_requested()) return;
    const bool fills = has_filled();
    if (!fills && Clock::now() - last_write < trace_.options_.write_every) continue;
    write();
    last_write = Clock::now();
    if (fills) trace_.close();
  }
}

/// Writes what was recorded so far.
void ServedTrace::Recording::write() try {
  ExpertTraceWriter whole = *trace_.kept_;
  model_.observation().copy_experts(whole);
  trace_.write(whole);
} catch (const std::bad_alloc&) {
  trace_.warn(kNoMemory);
}

}  // namespace hearth
