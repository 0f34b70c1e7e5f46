// See the header.
#include "server/models/folder_models.h"

#include <map>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "engine/model/model_file.h"
#include "engine/model/model_spec.h"
#include "kernels/base/file_error.h"
#include "profiler/store/choice.h"
#include "profiler/store/model_store.h"
#include "profiler/store/reference.h"

namespace hearth {
namespace {

namespace fs = std::filesystem;

/// Returns the reason, as a phrase, why a readable GGUF file is no model that can be served by itself. Empty
/// if it may be one.
std::string why_no_model(const ModelFile& file) {
  const std::string_view type = file.find_string("general.type").value_or("model");
  const std::string_view architecture = file.find_string("general.architecture").value_or("");
  if (architecture == "clip" || type == "mmproj") return "it is a projector for images or sound";
  if (type == "adapter") return "it is an adapter";
  if (type == "imatrix") return "it is an importance matrix";
  if (!architecture.empty() && type != "model") return "it is of the type " + file_error::quoted(type);
  return {};
}

}  // namespace

FolderModel describe_model(std::string name, fs::path path) {
  FolderModel model{.name = std::move(name), .path = std::move(path), .facts = {}};
  try {
    const ModelFile file = ModelFile::open(model.path);
    const ModelSpec spec = read_model_spec(file, {});
    model.facts = read_model_file_facts(file, spec);
    model.usual_context = spec.unindexed_context();
  } catch (const ModelFileError&) {
  } catch (const std::invalid_argument&) {
  }
  return model;
}

FolderScan scan_models_folder(const fs::path& folder) {
  std::error_code error;
  fs::directory_iterator(folder, error);
  if (error)
    throw ReferenceError("--models-folder " + folder.string() + ": the folder cannot be read (" +
                         error.message() + ")");
  FolderScan scan;
  std::map<std::string, int> n_named;
  std::vector<StoredModel> stored;
  for (StoredModel& model : ModelStore(folder).list(/*with_unfinished=*/false)) {
    const std::string label = file_error::file_label(model.path().string());
    if (!model.complete()) {
      scan.left_out.push_back(label + " is left out: only " + std::to_string(model.parts.size()) +
                              " of its " + std::to_string(model.n_parts) + " parts are there");
      continue;
    }
    if (model.path().string().ends_with(".predictors.gguf")) continue;  // belongs to the model beside it
    std::string why;
    try {
      why = why_no_model(ModelFile::open(model.path()));
    } catch (const ModelFileError&) {  // a request for the model gets the reason
    }
    if (!why.empty()) {
      scan.left_out.push_back(label + " is left out: " + why);
      continue;
    }
    ++n_named[model.name];
    stored.push_back(std::move(model));
  }
  for (const StoredModel& model : stored) {
    std::string name = model.name;
    if (n_named[name] > 1) name = split_name(model.path().lexically_relative(folder).generic_string()).stem;
    scan.models.push_back(describe_model(std::move(name), model.path()));
  }
  return scan;
}

}  // namespace hearth
