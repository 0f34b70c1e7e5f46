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

/// Counts of fewer tokens than this are not used. With so few tokens, chance decides which neurons look hot,
/// and the published activity of similar models (known_law()) is more accurate than the counts.
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

/// Like kept_activity() above, but does not report why a file cannot be used, for callers that report this
/// themselves.
std::optional<Activity> kept_activity(const std::filesystem::path& file, const ModelIdentity& model);

/// Returns the activity that was counted for the model: from the cache folder, or else from the file <model
/// file>.activity beside the model.
std::optional<Activity> kept_activity(const Environment& environment, const std::filesystem::path& model_path,
                                      const ModelIdentity& model, std::string& said);

/// Converts activity to the form that placement uses. source: a phrase about the activity's origin, for
/// messages; if empty, the phrase states the number of counted tokens. Returns nullopt if fewer than
/// kLeastTokens tokens were counted.
std::optional<ModelActivity> model_activity(const Activity& activity, std::string source = {});

/// Returns the activity in PowerInfer's GPU index beside the model (engine/activity/activity_profile.h). The
/// index lists which neurons are often active, but not how many neurons are active for a token. active: the
/// share of neurons that are active for a token; if nullopt, the published share for models of this kind is
/// used. Returns nullopt if there is no index, or if the model has no zeros to skip. If there is an index,
/// adds a sentence about it to `said`, whether the index is used or not.
std::optional<ModelActivity> activity_beside(const std::filesystem::path& model_path, const ModelSpec& spec,
                                             std::optional<double> active, std::string& said);

/// Returns the inputs with which the engine places a model. activity: the model's counted activity, or
/// nullopt if none was counted. found: called with each solution, on the thread that loads the model; may be
/// empty.
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
