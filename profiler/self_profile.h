// Measures a machine and a model that Hearth has not seen before: how fast the machine is, and which of the
// model's neurons are active.
//
// Both results are kept in the cache folder (profiler/machine/known_machine.h,
// engine/activity/activity_file.h), where later starts find them. A placement is not kept, because solving
// for it again takes less time than checking whether a kept placement still fits the model, the budgets, the
// machine and the activity. The functions run on the calling thread while another instance of the model
// serves requests. To count neurons, they load the model a second time, for the CPU, from the same mapping of
// the file.
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
  LoadOptions load;                     // the options with which the model is served
  std::filesystem::path activity_file;  // the file for the counts; if empty, they are only returned
  uint64_t n_tokens = 2000;             // counting ends when the activity file holds this many tokens
  std::chrono::seconds most_time{20};   // limit for counting
  /// Whether a mixture of experts is counted. If false, count_neurons() only adds a note for a mixture.
  bool experts = true;
};

struct SelfProfileHooks {
  /// Returns whether the machine is needed for other work now. While it returns true, measuring waits. May be
  /// empty.
  std::function<bool()> busy = {};
  /// Returns a counter of other work that the machine does. If the counter grows during a measurement, the
  /// measurement is repeated. May be empty.
  std::function<uint64_t()> work_done = {};
  /// Called several times a second with the name of the current task and its completed fraction. May be
  /// empty.
  std::function<void(std::string_view what, double fraction)> progress = {};
  std::stop_token stop = {};
};

struct SelfProfile {
  MachineProfile machine;
  bool machine_measured = false;   // true if this call measured it, false if it was read from the cache
  uint64_t n_counted = 0;          // tokens counted by this call
  uint64_t n_tokens = 0;           // tokens that the activity file holds
  Activity activity = {};          // the activity file's contents; empty if this call counted nothing
  std::vector<std::string> notes;  // sentences about what could not be measured or kept
};

/// Counts neurons until the activity file holds settings.n_tokens tokens, and stores the results in `found`.
/// Does not measure the machine. Throws std::runtime_error (one sentence) if the file cannot be written.
void count_neurons(const SelfProfileSettings& settings, const SelfProfileHooks& hooks, SelfProfile& found);

/// Measures the machine unless the cache folder has a usable profile of it, then calls count_neurons().
/// Returns nullopt if hooks.stop was requested. If neurons cannot be counted or a file cannot be written,
/// only adds a note. Throws std::bad_alloc and std::system_error.
std::optional<SelfProfile> self_profile(const SelfProfileSettings& settings, const Environment& environment,
                                        const SelfProfileHooks& hooks);

}  // namespace hearth
