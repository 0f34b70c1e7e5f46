// The activity of a model whose counts lie beside its file, as a placement takes it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "profiler/placement/activity_curve.h"

namespace hearth {

/// Counts that the engine finds there (engine/activity_profile.h), which tell how activity is spread, and not
/// how many neurons are active: `active` of all, or what was published for the model's kind. nullopt: nothing
/// is there, or the model has no zeros to skip. `sentence` (may be null) is told what was found, or why it is
/// not used.
std::optional<ModelActivity> activity_beside(const std::filesystem::path& model, const ModelSpec& spec,
                                             std::optional<double> active, std::string* sentence);

/// The same for a model file. nullopt too where it cannot be read: whoever loads it says so.
std::optional<ModelActivity> activity_beside(const std::filesystem::path& model,
                                             std::string_view ffn_activation);

}  // namespace hearth
