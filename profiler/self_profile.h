// Measures a machine and a model that Hearth has not seen before: how fast the machine is, and which of the
// model's neurons are active.
//
// Both results are kept in the cache folder (profiler/machine/known_machine.h,
// engine/activity/activity_file.h), where later starts find them. A placement is not kept: solving it again
// takes less time than checking whether a kept one still fits model, budgets, machine and activity. Runs on
// the calling thread while the model serves. To count neurons it loads the model a second time, for the CPU,
// over the same mapping of the file.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "config/environment.h"
#include "engine/activity/activity_file.h"
#include "engine/model_runtime.h"
#include "engine/placement/machine_profile.h"
#include "engine/residency/plan.h"

namespace hearth {

struct SelfProfileSettings {
  LoadOptions load;                     // as the model is served
  std::filesystem::path activity_file;  // counts are written here; empty: they are only returned
  uint64_t n_tokens = 2000;             // counted until the activity file holds this many
  std::chrono::seconds most_time{20};   // limit for counting
  /// Count the experts of a mixture; false: count nothing of a mixture.
  bool experts = true;
};

struct SelfProfileHooks {
  /// Whether the machine is needed for something else now; measuring then waits. May be empty.
  std::function<bool()> busy = {};
  /// A count that grows with the work that the machine does for others. A measurement during which it grew is
  /// repeated. May be empty.
  std::function<uint64_t()> work_done = {};
  /// Called several times a second with the current task and the fraction of it that is done. May be empty.
  std::function<void(std::string_view what, double fraction)> progress = {};
  std::stop_token stop = {};
};

struct SelfProfile {
  MachineProfile machine;
  bool machine_measured = false;   // by this call; false: read from the cache
  uint64_t n_counted = 0;          // tokens counted by this call
  uint64_t n_tokens = 0;           // tokens that the activity file holds
  Activity activity = {};          // contents of the activity file, if this call counted something
  std::vector<std::string> notes;  // sentences: what could not be measured or kept
};

/// Only counts neurons, until the file holds settings.n_tokens, and puts the result into `found`. Throws
/// std::runtime_error (one sentence) if the file cannot be written.
void count_neurons(const SelfProfileSettings& settings, const SelfProfileHooks& hooks, SelfProfile& found);

/// Measures what is not known yet. Returns nullopt if it was told to stop. If neurons cannot be counted or a
/// file cannot be written, only adds a note. Throws std::bad_alloc, std::system_error.
std::optional<SelfProfile> self_profile(const SelfProfileSettings& settings, const Environment& environment,
                                        const SelfProfileHooks& hooks);

}  // namespace hearth
