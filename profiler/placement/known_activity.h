// Finds a model's known activity and converts it to the form that placement reads. The activity comes from
// counts that Hearth keeps in its cache folder, or from files beside the model. Any thread.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "config/environment.h"
#include "engine/activity/activity_file.h"
#include "engine/placement/placement_facts.h"

namespace hearth {

/// With fewer counted tokens, chance decides which neurons look hot, and the law for models of the kind is
/// more accurate.
inline constexpr uint64_t kLeastTokens = 32;

/// The name of the file in the cache folder in which Hearth keeps a model's activity.
std::string kept_activity_name(const ModelIdentity& model);

/// The file in the cache folder in which Hearth keeps a model's activity; empty without a cache folder.
std::filesystem::path kept_activity_path(const Environment& environment, const ModelIdentity& model);

/// The activity in this file, if the file exists, is valid, belongs to this model and holds some tokens. If
/// the file exists but is not used, adds a sentence about that to `said`.
std::optional<Activity> kept_activity(const std::filesystem::path& file, const ModelIdentity& model,
                                      std::string& said);

/// Like the above, without the sentence, for callers that report elsewhere what is wrong with a file.
std::optional<Activity> kept_activity(const std::filesystem::path& file, const ModelIdentity& model);

/// The activity counted for the model, from the cache folder or from <model file>.activity beside the model.
std::optional<Activity> kept_activity(const Environment& environment, const std::filesystem::path& model_path,
                                      const ModelIdentity& model, std::string& said);

/// The activity in the form that placement reads. source: a phrase for messages; if empty, it states the
/// number of tokens. nullopt: fewer than kLeastTokens were counted.
std::optional<ModelActivity> model_activity(const Activity& activity, std::string source = {});

/// The activity in PowerInfer's GPU index beside the model (engine/activity/activity_profile.h). The index
/// says which neurons are often active, but not how many are active for a token. Their number is the share
/// `active` of all neurons, or else the published share for the model's kind. nullopt: there is no such file,
/// or the model has no zeros to skip. Adds a sentence to `said` if the file is found, used or not.
std::optional<ModelActivity> activity_beside(const std::filesystem::path& model_path, const ModelSpec& spec,
                                             std::optional<double> active, std::string& said);

/// The inputs by which the engine places a model: a measured machine and, if it was counted, activity. found:
/// called with each solution, on the loading thread; may be empty.
PlacementFacts placement_facts(const MachineProfile& machine, const std::optional<Activity>& activity,
                               std::function<void(const PlacementSolution& solution)> found);

/// A model's known activity.
struct KnownCounts {
  std::optional<Activity> counted;     // by hearth-profiler count, or while the model was served
  std::optional<ModelActivity> model;  // as placement reads it: from `counted`, or from PowerInfer's index
};

/// The activity in the cache folder or beside the model's file. `active` and `said`: see activity_beside().
KnownCounts known_counts(const Environment& environment, const ModelFile& file, const ModelSpec& spec,
                         std::optional<double> active, std::string& said);

/// Like known_counts(), for a model file, in the form that placement reads. Also returns nullopt if the file
/// cannot be read; loading it reports that.
std::optional<ModelActivity> known_activity(const Environment& environment,
                                            const std::filesystem::path& model_path,
                                            std::string_view ffn_activation);

}  // namespace hearth
