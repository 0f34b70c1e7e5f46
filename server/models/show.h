// `hearthd show`: what a model file is, what it needs, and how fast it would be on this machine.
//
// Reads the head of the file, not the weights. The speed comes from the planner behind `hearth-profiler plan`: predicted
// from what this machine can do, which is measured once and kept.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "config/environment.h"
#include "config/options.h"
#include "server/models/model_store.h"

namespace hearth {

struct ShowOptions {
  bool plan = true;  // false: nothing is measured, no speed is told
  bool json = false;
};

/// About ten lines, or one JSON object. origin: where a pulled file came from. Throws ModelFileError if it is no model.
std::string show_model(const std::filesystem::path& path, const std::optional<ModelOrigin>& origin,
                       const ShowOptions& show, const Options& options, const Environment& environment);

}  // namespace hearth
