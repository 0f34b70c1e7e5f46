// See the header.
#include "server/profiling.h"

#include <unistd.h>

#include <chrono>
#include <cmath>
#include <exception>
#include <string>
#include <utility>

#include "engine/activity/activity_file.h"
#include "engine/model/model_identity.h"
#include "profiler/machine/known_machine.h"
#include "profiler/machine/rate_text.h"
#include "profiler/placement/known_activity.h"
#include "profiler/self_profile.h"
#include "server/process/logging.h"

namespace hearth {
namespace {

using Clock = std::chrono::steady_clock;

// Interval of progress lines. Work that takes less time logs no progress line.
constexpr std::chrono::seconds kProgressEvery{2};

/// Thrown to stop a placement when the engine ends.
struct Abandoned : std::exception {};

class ProgressLog {
 public:
  void operator()(std::string_view what, double fraction) {
    const Clock::time_point now = Clock::now();
    if (what_.empty()) {
      log_info(
          "profiling begins: hearthd measures this machine and counts active neurons, once, while no request "
          "runs, for about 30 s. To skip it: kill -USR1 " +
          std::to_string(::getpid()) + "; to leave it out: --profile off");
    }
    if (what != what_) {
      what_ = what;
      begin_ = last_ = now;
    }
    if (now - last_ < kProgressEvery || fraction <= 0) return;
    last_ = now;
    const double elapsed = std::chrono::duration<double>(now - begin_).count();
    log_info("profiling",
             {{"doing", what_},
              {"percent", static_cast<int>(fraction * 100)},
              {"seconds_left", static_cast<int>(std::ceil(elapsed / fraction * (1 - fraction)))}});
  }

 private:
  std::string what_;
  Clock::time_point begin_{}, last_{};
};

/// Places the model according to the profile. If this fails, restores the previous placement. Runs on the
/// engine's thread.
void place_again(ModelRuntime& runtime, const LoadOptions& profiled, const LoadOptions& before,
                 const std::function<bool()>& go_on) {
  const Clock::time_point begin = Clock::now();
  const auto place = [&](LoadOptions options) {
    options.progress = [&](double) {
      if (!go_on()) throw Abandoned();
    };
    runtime.place_again(options);
  };
  try {
    try {
      place(profiled);
    } catch (const Abandoned&) {
      throw;
    } catch (const std::exception& error) {
      log_warning(std::string("the model could not be placed by its profile: ") + error.what() +
                  "; it is placed as before");
      place(before);
    }
  } catch (const Abandoned&) {
    return;
  }
  log_info("placed by profile",
           {{"ms", std::llround(std::chrono::duration<double, std::milli>(Clock::now() - begin).count())}});
  if (runtime.placed().plan == nullptr) return;
  for (const std::string& line : runtime.placed().plan->lines(runtime.facts().spec)) log_info(line);
}

}  // namespace

void log_solution(const PlacementSolution& solution) {
  log_info("placement solved", {{"expected_tokens_per_s", rate_text(1 / solution.seconds())},
                                {"active_on_gpu_percent", std::llround(100 * solution.caught)}});
}

Profiling::Profiling(Inputs inputs)
    : in_(std::move(inputs)), thread_([this](const std::stop_token& stop) { run(stop); }) {}

bool Profiling::skip() {
  if (over_->exchange(true)) return false;
  thread_.request_stop();
  log_info(
      "profiling is skipped: the model keeps its placement; the next start continues with the results so "
      "far");
  return true;
}

void Profiling::run(const std::stop_token& stop) {
  bool places = false;
  try {
    places = measure_and_place(stop);
  } catch (const std::bad_alloc&) {
    log_warning("profiling ended: there is not enough memory for it; the model stays as it is placed");
  } catch (const std::exception& error) {
    log_warning(std::string("profiling ended: ") + error.what() + "; the model stays as it is placed");
  }
  if (!places) *over_ = true;
}

/// Measures, then gives the engine the task of placing the model. Returns false if the engine got no task.
bool Profiling::measure_and_place(const std::stop_token& stop) {
  // 1. Measure, while there are no requests.
  ProgressLog progress;
  const SelfProfileHooks hooks{.busy =
                                   [this] {
                                     const EngineStatus status = in_.engine.status();
                                     return status.n_running > 0 || status.n_waiting > 0;
                                   },
                               .work_done = [this] { return in_.engine.status().n_steps; },
                               .progress = [&](std::string_view what, double done) { progress(what, done); },
                               .stop = stop};
  const std::optional<SelfProfile> profile =
      self_profile({.load = in_.load, .activity_file = in_.activity_file}, in_.environment, hooks);
  if (!profile || *over_) return false;
  for (const std::string& note : profile->notes) log_warning("profiling: " + note);
  log_info("profiled", {{"machine", profile->machine_measured ? "measured" : "known"},
                        {"counted_tokens", static_cast<int64_t>(profile->n_counted)},
                        {"known_tokens", static_cast<int64_t>(profile->n_tokens)}});
  if (!profile->machine_measured && profile->n_counted == 0)
    return false;  // no new measurements; the placement uses all earlier ones

  // 2. Make the engine place the model according to the results when the engine is idle.
  LoadOptions again = in_.load;
  again.placement = placement_facts(
      profile->machine,
      kept_activity(in_.activity_file, identify(in_.runtime.facts().file, in_.runtime.facts().spec)),
      log_solution);
  again.prompt_rates = prompt_rates(profile->machine);
  // When the engine calls this function, the Profiling object may have been destroyed, but the engine and the
  // runtime still exist.
  in_.engine.when_idle(
      [over = over_, &runtime = in_.runtime, again, before = in_.load](const std::function<bool()>& go_on) {
        if (!over->exchange(true)) place_again(runtime, again, before, go_on);
      });
  return true;
}

}  // namespace hearth
