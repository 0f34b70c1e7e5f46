// What is known of a model's activity, in the form that placement takes: counts that Hearth keeps in its
// cache folder, or files beside the model. Any thread.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "config/environment.h"
#include "engine/activity/activity_file.h"
#include "profiler/placement/activity_curve.h"

namespace hearth {

/// With fewer tokens counted, which neurons are hot is a matter of chance; the law for models of the kind
/// then says more.
inline constexpr uint64_t kLeastTokens = 32;

/// The name of the file in the cache folder in which Hearth keeps a model's activity.
std::string kept_activity_name(const ModelIdentity& model);

/// The file in the cache folder in which Hearth keeps a model's activity; empty without a cache folder.
std::filesystem::path kept_activity_path(const Environment& environment, const ModelIdentity& model);

/// The activity in this file, if the file exists, is sound, is this model's and holds some tokens. If the
/// file exists but is not used, a sentence about it is added to `said`.
std::optional<Activity> kept_activity(const std::filesystem::path& file, const ModelIdentity& model,
                                      std::string& said);

/// Like the above, without the sentence, for callers that report elsewhere what is wrong with a file.
std::optional<Activity> kept_activity(const std::filesystem::path& file, const ModelIdentity& model);

/// The activity counted for the model: kept by Hearth, or in <model file>.activity beside it.
std::optional<Activity> kept_activity(const Environment& environment, const std::filesystem::path& model_path,
                                      const ModelIdentity& model, std::string& said);

/// The activity as placement takes it. source: a phrase, for people; empty: the number of tokens. nullopt:
/// fewer than kLeastTokens were counted, or it was experts that were.
std::optional<ModelActivity> model_activity(const Activity& activity, std::string source = {});

/// PowerInfer's GPU index beside the model (engine/activity/activity_profile.h). It says which neurons are
/// often active, not how many are active for a token: that is `active` of all neurons, or the published share
/// for the model's kind. nullopt: there is no such file, or the model has no zeros to skip. `said`: as above,
/// and what was found.
std::optional<ModelActivity> activity_beside(const std::filesystem::path& model_path, const ModelSpec& spec,
                                             std::optional<double> active, std::string& said);

/// What is known of a model's activity.
struct KnownCounts {
  std::optional<Activity> counted;     // by hearth-profiler count, or while it was served
  std::optional<ModelActivity> model;  // as placement takes it: from `counted`, or from the counts of others
};

/// What is kept of a model or lies beside its file; `active` and `said` as above.
KnownCounts known_counts(const Environment& environment, const ModelFile& file, const ModelSpec& spec,
                         std::optional<double> active, std::string& said);

/// Like known_counts(), in the form that placement takes, for a model file. Also nullopt if the file cannot
/// be read; loading it reports that.
std::optional<ModelActivity> known_activity(const Environment& environment,
                                            const std::filesystem::path& model_path,
                                            std::string_view ffn_activation);

}  // namespace hearth
