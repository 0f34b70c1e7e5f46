// What Hearth finds out by itself when it first meets a machine and a model: what the machine can do, and
// which of the model's neurons are active.
//
// Both are kept in the cache folder (profiler/machine/known_machine.h, engine/activity/activity_file.h), and
// every later start finds them there. A placement is not kept: it is solved from these two in less time than
// checking whether a kept one still fits model, budgets, machine and activity would be worth. Runs on the
// calling thread, beside a model that serves: for its counting it loads the model a second time, for the CPU,
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
#include "profiler/machine/machine_profile.h"

namespace hearth {

struct SelfProfileSettings {
  LoadOptions load;                     // as the model is served
  std::filesystem::path activity_file;  // what is counted goes there; empty: only to who asked
  uint64_t n_tokens = 2000;             // that the activity file is to hold: with as many, nothing is counted
  std::chrono::seconds most_time{20};   // of counting
};

struct SelfProfileHooks {
  /// Whether the machine is needed for something else now: then measuring waits. May be empty.
  std::function<bool()> busy = {};
  /// Grows with the work that the machine does for others: what was measured meanwhile is measured again. May
  /// be empty.
  std::function<uint64_t()> work_done = {};
  /// Told some times a second what is being done, and its fraction. May be empty.
  std::function<void(std::string_view what, double fraction)> progress = {};
  std::stop_token stop = {};
};

struct SelfProfile {
  MachineProfile machine;
  bool machine_measured = false;   // now; else read from the cache
  uint64_t n_counted = 0;          // tokens, now
  uint64_t n_tokens = 0;           // that the activity file holds
  Activity activity = {};          // what it holds, if something was counted now
  std::vector<std::string> notes;  // sentences: what could not be found out or kept
};

/// The counting alone, until the file holds settings.n_tokens: what it came to is put into `found`. Throws
/// std::runtime_error (one sentence): the file cannot be written.
void count_neurons(const SelfProfileSettings& settings, const SelfProfileHooks& hooks, SelfProfile& found);

/// Finds out what is not known. nullopt: told to stop. A model whose neurons cannot be counted, and a file
/// that cannot be written, are notes. Throws std::bad_alloc, std::system_error.
std::optional<SelfProfile> self_profile(const SelfProfileSettings& settings, const Environment& environment,
                                        const SelfProfileHooks& hooks);

}  // namespace hearth
