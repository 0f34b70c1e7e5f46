// Finds out what is known about a model's activity, and converts it to the form that placement uses. The
// activity comes from counts that Hearth keeps in its cache folder, or from files beside the model. Any
// thread.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "config/environment.h"
#include "engine/activity/activity_file.h"
#include "engine/placement/placement_facts.h"

namespace hearth {

/// The least number of counted tokens that is used. With fewer tokens, chance decides which neurons look hot,
/// and the published activity of similar models (known_law()) is more accurate.
inline constexpr uint64_t kLeastTokens = 32;

/// The file name under which Hearth keeps a model's activity in the cache folder.
std::string kept_activity_name(const ModelIdentity& model);

/// The path of the file in which Hearth keeps a model's activity; empty if there is no cache folder.
std::filesystem::path kept_activity_path(const Environment& environment, const ModelIdentity& model);

/// Returns the activity in this file, or nullopt if the file does not exist, is damaged, belongs to another
/// model or holds no tokens. If the file exists but cannot be used, adds a sentence about the reason to
/// `said`.
std::optional<Activity> kept_activity(const std::filesystem::path& file, const ModelIdentity& model,
                                      std::string& said);

/// Like the above, but adds no sentence. For callers that report the problem themselves.
std::optional<Activity> kept_activity(const std::filesystem::path& file, const ModelIdentity& model);

/// Returns the activity that was counted for the model: from the cache folder, or else from the file <model
/// file>.activity beside the model.
std::optional<Activity> kept_activity(const Environment& environment, const std::filesystem::path& model_path,
                                      const ModelIdentity& model, std::string& said);

/// Converts activity to the form that placement uses. source: a phrase about the activity's origin, for
/// messages; if empty, it states the number of tokens. Returns nullopt if fewer than kLeastTokens were
/// counted.
std::optional<ModelActivity> model_activity(const Activity& activity, std::string source = {});

/// Returns the activity in PowerInfer's GPU index beside the model (engine/activity/activity_profile.h). The
/// index lists which neurons are often active, but not how many are active for a token. This number comes
/// from `active`, a share of all neurons, or else from the published share for models of this kind. Returns
/// nullopt if there is no such file, or if the model has no zeros to skip. If the file exists, adds a
/// sentence about it to `said`, whether it is used or not.
std::optional<ModelActivity> activity_beside(const std::filesystem::path& model_path, const ModelSpec& spec,
                                             std::optional<double> active, std::string& said);

/// Returns the inputs with which the engine places a model: a measured machine and, if it was counted, the
/// model's activity. found: called with each solution, on the thread that loads the model; may be empty.
PlacementFacts placement_facts(const MachineProfile& machine, const std::optional<Activity>& activity,
                               std::function<void(const PlacementSolution& solution)> found);

/// A model's known activity.
struct KnownCounts {
  std::optional<Activity> counted;  // counted by hearth-profiler count, or while hearthd served the model
  /// The activity in the form that placement uses, from `counted` or from PowerInfer's index.
  std::optional<ModelActivity> model;
};

/// Returns the activity in the cache folder or beside the model's file. `active` and `said` are as in
/// activity_beside().
KnownCounts known_counts(const Environment& environment, const ModelFile& file, const ModelSpec& spec,
                         std::optional<double> active, std::string& said);

/// Like known_counts(), but opens the model file, and returns only the form that placement uses. Also returns
/// nullopt if the model file cannot be read, because loading the model reports this problem.
std::optional<ModelActivity> known_activity(const Environment& environment,
                                            const std::filesystem::path& model_path,
                                            std::string_view ffn_activation);

}  // namespace hearth
