// Implements `hearthd show`: describes a model file, the memory it requires, and its expected speed on this
// machine.
//
// Reads the head of the file, not the weights. The planner of `hearth-profiler plan` predicts the model's
// speed from the machine's speed, which is measured once and stored.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "config/environment.h"
#include "config/options.h"
#include "profiler/store/model_store.h"

namespace hearth {

struct ShowOptions {
  bool plan = true;  // whether to predict the speed, which may require measuring the machine
  bool json = false;
};

/// Returns about ten lines of text, or one JSON object. origin: the source of a downloaded file. Throws
/// ModelFileError if the file is not a model.
std::string show_model(const std::filesystem::path& path, const std::optional<ModelOrigin>& origin,
                       const ShowOptions& show, const Options& options, const Environment& environment);

}  // namespace hearth
