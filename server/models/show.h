// Implements `hearthd show`: describes a model file, its requirements, and its expected speed on this
// machine.
//
// Reads the head of the file, but not the weights. The planner behind `hearth-profiler plan` predicts the
// model's speed from the machine's speed, which is measured once and stored.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "config/environment.h"
#include "config/options.h"
#include "server/store/model_store.h"

namespace hearth {

struct ShowOptions {
  bool plan = true;  // if false, neither measures nor predicts the speed
  bool json = false;
};

/// Returns about ten lines of text, or one JSON object. origin: where a pulled file comes from. Throws
/// ModelFileError if the file is not a model.
std::string show_model(const std::filesystem::path& path, const std::optional<ModelOrigin>& origin,
                       const ShowOptions& show, const Options& options, const Environment& environment);

}  // namespace hearth
