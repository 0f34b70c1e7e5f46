// Implements self_profile(): measures the machine, then counts the model's activity.
#include "profiler/self_profile.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>

#include "engine/activity/activity_file.h"
#include "engine/model/model_identity.h"
#include "engine/model/model_spec.h"
#include "engine/residency/memory_limit.h"
#include "kernels/base/file_error.h"
#include "profiler/activity/count.h"
#include "profiler/activity/text_feed.h"
#include "profiler/machine/hardware.h"
#include "profiler/machine/known_machine.h"
#include "profiler/machine/probe.h"
#include "profiler/placement/known_activity.h"

namespace hearth {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// The time between two checks whether the machine is idle again.
constexpr milliseconds kLook{20};
// After this many tries, a result is accepted even if the machine was not idle.
constexpr int kTries = 3;
constexpr int kContext = 1024;  // the context of hearth-profiler count
constexpr int kChunk = 64;

/// Waits while the machine is needed for other work. Returns true if the profile was told to stop.
bool wait_for_rest(const SelfProfileHooks& hooks) {
  while (!hooks.stop.stop_requested() && hooks.busy && hooks.busy()) std::this_thread::sleep_for(kLook);
  return hooks.stop.stop_requested();
}

/// Measures the machine while nothing else runs. If it is never idle, measures it under load.
std::optional<Probe> measure_at_rest(const Hardware& hardware, const SelfProfileHooks& hooks) {
  const auto progress = [&](double fraction, std::string_view what) {
    if (hooks.progress) hooks.progress(what, fraction);
  };
  for (int attempt = 1;; ++attempt) {
    if (wait_for_rest(hooks)) return std::nullopt;
    const uint64_t before = hooks.work_done ? hooks.work_done() : 0;
    std::optional<Probe> probe = probe_machine(hardware, {.progress = progress, .stop = hooks.stop});
    if (!probe || !hooks.work_done || hooks.work_done() == before) return probe;
    if (attempt == kTries) {
      probe->complete = false;
      probe->notes.push_back(
          "The machine was busy while it was measured, and may be faster than the figures say.");
      return probe;
    }
  }
}

/// Returns options that load the model for the CPU alone, with no more memory than the serving model leaves
/// free.
LoadOptions for_counting(const SelfProfileSettings& settings, const ModelSpec& spec) {
  LoadOptions load;
  load.path = settings.load.path;
  load.file = settings.load.file;
  load.n_threads = settings.load.n_threads;
  load.isa = settings.load.isa;
  load.activation_bits = settings.load.activation_bits;
  load.spread_memory = settings.load.spread_memory;
  load.n_slots = 1;
  load.context_tokens = std::min(kContext, spec.context_train);
  load.prefill_chunk = kChunk;
  load.ffn_activation = settings.load.ffn_activation;
  load.sparsity.mode = "exact";  // counts which neurons are active, not which are proposed
  load.memory_limit_bytes = std::max<uint64_t>(available_bytes() / 2, 1);
  return load;
}

}  // namespace

void count_neurons(const SelfProfileSettings& settings, const SelfProfileHooks& hooks, SelfProfile& found) {
  std::unique_ptr<ModelRuntime> model;
  {
    std::shared_ptr<const ModelFile> file = settings.load.file;
    if (!file) file = std::make_shared<const ModelFile>(ModelFile::open(settings.load.path));
    const ModelSpec spec = read_model_spec(*file, settings.load.ffn_activation);
    if (spec.has_experts() && !settings.experts) {
      found.notes.push_back(file_error::file_label(settings.load.path.string()) +
                            ": its FFNs are mixtures of experts, which are placed without counts.");
      return;
    }
    if (std::string why = why_not_counted(*file, spec, "exact"); !why.empty()) {
      found.notes.push_back(std::move(why));
      return;
    }
    const ModelIdentity identity = identify(*file, spec);
    if (const std::optional<Activity> kept = kept_activity(settings.activity_file, identity)) {
      found.n_tokens = kept->n_tokens();
      if (found.n_tokens >= settings.n_tokens) return;
    }
    if (wait_for_rest(hooks)) return;
    model = ModelRuntime::load(for_counting(settings, spec));
  }
  TextFeed texts(built_in_prompts(), {});
  // `spent` excludes the time in wait_for_rest(), so that most_time limits only the counting.
  Clock::duration spent{};
  Clock::time_point last = Clock::now();
  const CountHooks counting{.progress =
                                [&](double fraction, uint64_t) {
                                  if (hooks.progress) hooks.progress("counting active neurons", fraction);
                                },
                            .stop =
                                [&] {
                                  spent += Clock::now() - last;
                                  const bool told = wait_for_rest(hooks);
                                  last = Clock::now();
                                  return told || spent >= settings.most_time;
                                }};
  CountResult result =
      count_texts(*model, texts, {.file = settings.activity_file, .n_tokens = settings.n_tokens}, counting);
  if (!result.note.empty()) found.notes.push_back(result.note);
  found.n_counted = result.n_prompt_tokens + result.n_generated_tokens;
  found.n_tokens = result.activity.n_tokens();
  found.activity = std::move(result.activity);
}

std::optional<SelfProfile> self_profile(const SelfProfileSettings& settings, const Environment& environment,
                                        const SelfProfileHooks& hooks) {
  // 1. Measure the machine.
  const std::optional<KnownMachine> known =
      known_machine(environment, hardware_here(), /*fresh=*/false,
                    [&](const Hardware& hardware) { return measure_at_rest(hardware, hooks); });
  if (!known) return std::nullopt;
  SelfProfile found{
      .machine = known->machine, .machine_measured = known->measured_now, .notes = known->notes};

  // 2. Count the model's neurons.
  try {
    count_neurons(settings, hooks, found);
  } catch (const std::runtime_error& error) {
    found.notes.push_back(error.what());
  }
  if (hooks.stop.stop_requested()) return std::nullopt;
  return found;
}

}  // namespace hearth
