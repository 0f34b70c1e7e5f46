// What is known of a model's activity, in the form a placement takes: counts that Hearth keeps in its cache
// folder, or files beside the model. Any thread.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "config/environment.h"
#include "engine/activity/activity_file.h"
#include "profiler/placement/activity_curve.h"

namespace hearth {

/// With fewer tokens counted, which neurons are hot is a matter of chance, and what is known of models of the
/// kind says more.
inline constexpr uint64_t kLeastTokens = 32;

/// The name of the file in the cache folder in which Hearth keeps a model's activity.
std::string kept_activity_name(const ModelIdentity& model);

/// Where Hearth keeps a model's activity: in the cache folder; empty where there is none.
std::filesystem::path kept_activity_path(const Environment& environment, const ModelIdentity& model);

/// The activity in this file, if it is there, of this model, and sound with some tokens in it. `said`: a
/// sentence is added to it about one that is there and not used.
std::optional<Activity> kept_activity(const std::filesystem::path& file, const ModelIdentity& model,
                                      std::string& said);

/// Like the above, without the sentence, for callers that report elsewhere what is wrong with a file.
std::optional<Activity> kept_activity(const std::filesystem::path& file, const ModelIdentity& model);

/// What was counted of the model: as Hearth keeps it, or in <model file>.activity beside it.
std::optional<Activity> kept_activity(const Environment& environment, const std::filesystem::path& model_path,
                                      const ModelIdentity& model, std::string& said);

/// source: a phrase, for people; empty: how many tokens there were. nullopt: fewer than kLeastTokens.
std::optional<ModelActivity> model_activity(const Activity& activity, std::string source = {});

/// PowerInfer's GPU index beside the model (engine/activity/activity_profile.h). It says which neurons are often
/// active, not how many are: `active` of all, or what was published for the model's kind. nullopt: nothing is
/// there, or the model has no zeros to skip. `said`: as above, and what was found.
std::optional<ModelActivity> activity_beside(const std::filesystem::path& model_path, const ModelSpec& spec,
                                             std::optional<double> active, std::string& said);

/// What is known of a model's activity.
struct KnownCounts {
  std::optional<Activity> counted;     // by hearth-profiler count, or while it was served
  std::optional<ModelActivity> model;  // as a placement takes it: of `counted`, or of others' counts
};

/// What is kept of a model, or lies beside its file; active and said as above.
KnownCounts known_counts(const Environment& environment, const ModelFile& file, const ModelSpec& spec,
                         std::optional<double> active, std::string& said);

/// The same as a placement takes it, for a model file. nullopt too where it cannot be read: whoever loads it
/// says so.
std::optional<ModelActivity> known_activity(const Environment& environment,
                                            const std::filesystem::path& model_path,
                                            std::string_view ffn_activation);

}  // namespace hearth
