// Finds the models in the folder of --models-folder.
//
// Called on main's thread at start and after SIGHUP.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "server/api/model_file_facts.h"

namespace hearth {

/// Facts about a model that is served but not loaded, from its file.
struct FolderModel {
  std::string name;  // as `hearthd list` shows it; the path below the folder if several have this name
  std::filesystem::path path;           // the file, or the first part of a split model
  std::optional<ModelFileFacts> facts;  // absent if the file cannot be read as a model
  int usual_context = 0;                // ModelSpec::unindexed_context(); 0 without facts
};

struct FolderScan {
  std::vector<FolderModel> models;  // ordered by path
  // Sentences about GGUF files that were left out, because they are not models or are incomplete.
  std::vector<std::string> left_out;
};

/// Reads the headers of all GGUF files in the folder and below it. A file that is damaged, or whose
/// architecture is unknown, is a model without facts: a request for it gets the reason. Projectors, adapters,
/// predictors and other files that do not contain a model are left out. Throws ReferenceError if the folder
/// cannot be read.
FolderScan scan_models_folder(const std::filesystem::path& folder);

/// Reads the facts of one model's file. Returns a model without facts if it cannot be read.
FolderModel describe_model(std::string name, std::filesystem::path path);

}  // namespace hearth
