// Implements OnlineActivity.
#include "profiler/activity/online_activity.h"

#include <stdexcept>
#include <utility>

#include "engine/activity/activity_file.h"

namespace hearth {

OnlineActivity::OnlineActivity(ModelRuntime& model, OnlineActivityOptions options)
    : model_(model),
      options_(std::move(options)),
      identity_(identify(model.facts().file, model.facts().spec)) {
  const int usual = model.placed().plan == nullptr ? kOneOfOnCpu : kOneOfOnDevice;
  model_.observation().count_activity(
      {.decode_only = true, .one_of = options_.one_of > 0 ? options_.one_of : usual});
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

OnlineActivity::~OnlineActivity() { finish(); }

void OnlineActivity::finish() {
  const MutexLock ending(ending_);
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
}

uint64_t OnlineActivity::n_written() const {
  const MutexLock lock(mutex_);
  return n_written_;
}

void OnlineActivity::run(const std::stop_token& stop) {
  // Counts that the engine makes during a write are left for the next write. So if the stop is requested
  // during a write, write once more.
  bool last = false;
  while (!last) {
    {
      MutexLock lock(mutex_);
      wake_.wait_for(lock.for_wait(), stop, options_.write_every, [] { return false; });
    }
    last = stop.stop_requested();
    write();
  }
}

/// Writes the counts to the file. If that fails, they stay in memory for the next write.
void OnlineActivity::write() {
  std::string warning;
  try {
    waiting_.add(model_.observation().take_activity());
    if (waiting_.empty()) return;
    warning = update_activity(options_.file, identity_, [this](Activity& activity) {
      activity.of(ActivitySource::kServed).add(waiting_);
    });
    const MutexLock lock(mutex_);
    n_written_ += waiting_.n_tokens;
    waiting_ = {};
  } catch (const std::exception& error) {
    warning = error.what();
  }
  if (!warning.empty() && warning != last_warning_ && options_.warn) options_.warn(warning);
  last_warning_ = warning;
}

}  // namespace hearth
