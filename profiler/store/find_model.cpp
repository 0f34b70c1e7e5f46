// See the header.
#include "profiler/store/find_model.h"

#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/base/file_error.h"
#include "profiler/store/known_models.h"
#include "profiler/store/model_store.h"

namespace hearth {
namespace {

namespace fs = std::filesystem;

/// Whether the text is a path: it names an existing file, or has the form of a path. A folder does not count,
/// so that a folder with a model's name does not hide the model.
bool is_path(const std::string& text, const ModelReference& reference) {
  std::error_code error;
  return text.empty() || std::holds_alternative<PathReference>(reference) ||
         (fs::exists(text, error) && !fs::is_directory(text, error));
}

/// Throws ReferenceError with advice if the text names a folder.
void refuse_folder(const std::string& text) {
  std::error_code error;
  if (!fs::is_directory(text, error)) return;
  const std::string label = file_error::file_label(text);
  for (const fs::directory_entry& entry : fs::directory_iterator(text, error)) {
    if (entry.path().extension() != ".safetensors") continue;
    throw ReferenceError(label +
                         " is a folder with a safetensors model, expected a GGUF file; make one with: "
                         "hearth-profiler convert " +
                         label + " --out MODEL.gguf");
  }
  throw ReferenceError(label + " is a folder, expected a GGUF file; hearthd --models-folder " + label +
                       " serves all models in it");
}

std::optional<fs::path> find_in_store(const ModelReference& reference, const ModelStore& store) {
  if (const std::optional<StoredModel> model = store.find(reference)) return model->path();
  const NameReference* name = std::get_if<NameReference>(&reference);
  const KnownModel* known = name != nullptr ? find_known_model(name->name) : nullptr;
  if (known == nullptr) return std::nullopt;
  const std::optional<StoredModel> model = store.find(parse_model_reference(known->reference));
  return model ? std::optional(model->path()) : std::nullopt;
}

/// Whether the reference can be downloaded. A plain name can be downloaded only if it is the name of a known
/// model.
bool is_on_hub(const ModelReference& reference) {
  const NameReference* name = std::get_if<NameReference>(&reference);
  return name == nullptr || find_known_model(name->name) != nullptr;
}

}  // namespace

std::optional<fs::path> model_in_store(const std::string& text, const Options& options,
                                       const Environment& environment) {
  return find_in_store(parse_model_reference(text), model_store(options, environment));
}

fs::path local_model(const std::string& text, const Options& options, const Environment& environment) {
  const ModelReference reference = parse_model_reference(text);
  if (is_path(text, reference)) {
    refuse_folder(text);
    return text;
  }
  const ModelStore store = model_store(options, environment);
  if (std::optional<fs::path> path = find_in_store(reference, store)) return *std::move(path);
  const std::string label = file_error::file_label(text);
  if (is_on_hub(reference))
    throw ReferenceError(label + " is not in " + store.folder().string() + "; hearthd pull " + label +
                         " fetches it");
  refuse_folder(text);
  std::vector<std::string> here;
  for (const StoredModel& model : store.list(false)) here.push_back(model.name);
  throw ReferenceError(label + " is neither a file, nor a model of " + store.folder().string() +
                       " (hearthd list), nor a known name (hearthd list --known)" +
                       similar_models(text, here));
}

bool can_be_pulled(const std::string& text, const Options& options, const Environment& environment) {
  const ModelReference reference = parse_model_reference(text);
  return !is_path(text, reference) && is_on_hub(reference) &&
         !find_in_store(reference, model_store(options, environment));
}

}  // namespace hearth
