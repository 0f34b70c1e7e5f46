// See the header.
#include "profiler/store/model_store.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <variant>

#include "kernels/base/file_error.h"
#include "kernels/base/whole_file.h"
#include "profiler/machine/cache_folder.h"
#include "profiler/store/choice.h"
#include "profiler/store/part_file.h"

namespace hearth {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kPartial = ".partial";
constexpr size_t kMostOriginBytes = 64 << 10;
constexpr int kMostDepth = 8;
constexpr size_t kMostModels = 100'000;

fs::path origin_path(const fs::path& place) {
  return place.parent_path() / ("." + place.filename().string() + ".origin");
}

std::string text_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

bool is_gguf(const fs::path& path) {
  const std::string name = lower_case(path.filename().string());
  return name.size() > 5 && name.ends_with(".gguf") && name.front() != '.';
}

/// Returns all GGUF files below a folder, ordered by path. Skips hidden folders.
std::vector<fs::path> gguf_files(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, error), end;
  while (!error && at != end && files.size() < kMostModels) {
    std::error_code unreadable;
    const bool is_folder = at->is_directory(unreadable);
    if (is_folder && (at->path().filename().string().starts_with('.') || at.depth() >= kMostDepth))
      at.disable_recursion_pending();
    if (!is_folder && is_gguf(at->path()) && at->is_regular_file(unreadable)) files.push_back(at->path());
    at.increment(error);
  }
  std::ranges::sort(files);
  return files;
}

uint64_t size_of(const fs::path& path) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  return error ? 0 : size;
}

/// Groups the files of models that are split into parts.
std::vector<StoredModel> grouped(const std::vector<fs::path>& files) {
  // Key: the path without the part number, and the number of parts.
  std::map<std::string, StoredModel> models;
  for (const fs::path& file : files) {
    const SplitName split = split_name(file.string());
    StoredModel& model = models[split.stem + "\n" + std::to_string(split.n_parts)];
    model.name = fs::path(split.stem).filename().string();
    model.n_parts = split.n_parts;
    model.parts.push_back(file);
    model.bytes += size_of(file);
  }
  std::vector<StoredModel> list;
  for (auto& [key, model] : models) list.push_back(std::move(model));
  return list;
}

bool is_of(const StoredModel& model, const HubReference& reference) {
  if (!model.origin || model.origin->source != "hf:" + reference.id()) return false;
  const bool same_revision =
      reference.revision.empty() || model.origin->revision == reference.revision ||
      (reference.revision.size() >= 7 && model.origin->commit.starts_with(reference.revision));
  return same_revision;
}

/// Whether a file belongs to the repository that the reference names, and to the file or quantization that it
/// names. below: the file's path below the store's folder.
bool is_named(const HubReference& reference, const fs::path& below) {
  const std::string begin = reference.id() + "/", path = below.generic_string();
  if (!path.starts_with(begin)) return false;
  const std::string file = path.substr(begin.size());
  if (!reference.file.empty()) return split_name(file).stem == split_name(reference.file).stem;
  return reference.quant.empty() || lower_case(quant_of(file)) == lower_case(reference.quant);
}

std::optional<StoredModel> only(std::vector<StoredModel> found, const std::string& name) {
  if (found.empty()) return std::nullopt;
  if (found.size() == 1) return std::move(found.front());
  std::string paths;
  for (const StoredModel& model : found)
    paths += (paths.empty() ? "" : ", ") + file_error::file_label(model.path().string());
  throw ReferenceError(name + " is the name of several models; say --model with the path of one: " + paths);
}

}  // namespace

std::string origin_text(const ModelOrigin& origin) {
  const Json json = {{"hearth_origin", 1},      {"source", origin.source}, {"revision", origin.revision},
                     {"commit", origin.commit}, {"file", origin.file},     {"sha256", origin.sha256},
                     {"size", origin.size},     {"pulled", origin.pulled}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::optional<ModelOrigin> parse_origin(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("hearth_origin") || json["hearth_origin"] != 1) return std::nullopt;
  ModelOrigin origin;
  origin.source = text_at(json, "source");
  origin.revision = text_at(json, "revision");
  origin.commit = text_at(json, "commit");
  origin.file = text_at(json, "file");
  origin.sha256 = text_at(json, "sha256");
  origin.pulled = text_at(json, "pulled");
  if (const auto size = json.find("size"); size != json.end() && size->is_number_unsigned())
    origin.size = size->get<uint64_t>();
  if (origin.source.empty()) return std::nullopt;
  return origin;
}

fs::path ModelStore::place_of(const HubReference& reference, const std::string& path) const {
  return folder_ / reference.owner / reference.repository / path;
}
fs::path ModelStore::place_of(const UrlReference& reference) const {
  return folder_ / reference.host / reference.file_name;
}
fs::path ModelStore::partial_of(const fs::path& place) const {
  return folder_ / kPartial / place.lexically_relative(folder_);
}

std::vector<StoredModel> ModelStore::list(bool with_unfinished) const {
  std::vector<StoredModel> models = grouped(gguf_files(folder_));
  for (StoredModel& model : models) model.origin = origin_of_file(model.path());
  if (!with_unfinished) return models;
  for (StoredModel& model : grouped(gguf_files(folder_ / kPartial))) {
    model.unfinished = true;
    model.bytes = 0;
    for (const fs::path& part : model.parts) {
      std::optional<PartState> state;
      try {
        state = parse_part_state(read_whole_file(part_state_path(part), 4 << 20));
      } catch (const std::runtime_error&) {
      }
      if (!state) continue;
      model.bytes += state->size;
      std::error_code error;
      const std::uintmax_t length = fs::file_size(part, error);
      if (!error) model.bytes_there += length;
    }
    models.push_back(std::move(model));
  }
  return models;
}

std::optional<StoredModel> ModelStore::find(const ModelReference& reference) const {
  std::vector<StoredModel> here = list(false);
  std::erase_if(here, [](const StoredModel& model) { return !model.complete(); });
  if (const NameReference* name = std::get_if<NameReference>(&reference)) {
    std::erase_if(here, [&](const StoredModel& m) { return lower_case(m.name) != lower_case(name->name); });
    return only(std::move(here), name->name);
  }
  if (const UrlReference* url = std::get_if<UrlReference>(&reference)) {
    const std::string source = url->url.substr(0, url->url.find('?'));
    std::erase_if(here, [&](const StoredModel& m) { return !m.origin || m.origin->source != source; });
    return only(std::move(here), url->url);
  }
  const HubReference* hub = std::get_if<HubReference>(&reference);
  if (hub == nullptr) return std::nullopt;
  std::erase_if(here, [&](const StoredModel& model) { return !is_of(model, *hub); });
  // Several files may match the reference. The choice among them follows the rules for downloads.
  std::vector<HubFile> files;
  for (const StoredModel& model : here) {
    const fs::path root = folder_ / hub->owner / hub->repository;
    for (const fs::path& part : model.parts)
      files.push_back({part.lexically_relative(root).generic_string(), size_of(part), {}});
  }
  try {
    const ModelFilesOnHub chosen = chosen_model(models_in(files), *hub);
    const fs::path place = place_of(*hub, chosen.parts.front().path);
    for (StoredModel& model : here)
      if (model.path() == place) return std::move(model);
  } catch (const PullError&) {
  }
  return std::nullopt;
}

std::vector<StoredModel> ModelStore::named(const std::string& text) const {
  const bool is_reference = text.starts_with("hf:") || text.find("://") != std::string::npos;
  const ModelReference reference = is_reference ? parse_model_reference(text) : PathReference{text};
  const HubReference* const hub = std::get_if<HubReference>(&reference);
  const UrlReference* const url = std::get_if<UrlReference>(&reference);
  const std::string wanted = split_name(text).stem;
  std::vector<StoredModel> found;
  for (StoredModel& model : list(true)) {
    const fs::path root = model.unfinished ? folder_ / kPartial : folder_;
    const fs::path below = model.path().lexically_relative(root);
    const std::string stem = split_name(below.generic_string()).stem;
    const bool is_it = hub != nullptr   ? is_named(*hub, below)
                       : url != nullptr ? below == place_of(*url).lexically_relative(folder_)
                                        : lower_case(model.name) == lower_case(wanted) || stem == wanted ||
                                              split_name(model.path().string()).stem == wanted;
    if (is_it) found.push_back(std::move(model));
  }
  return found;
}

void ModelStore::write_origin(const fs::path& place, const ModelOrigin& origin) const {
  write_whole_file(origin_path(place), origin_text(origin));
}

std::optional<ModelOrigin> ModelStore::origin_of_file(const fs::path& place) const {
  const fs::path path = origin_path(place);
  std::error_code error;
  if (!fs::exists(path, error)) return std::nullopt;
  try {
    return parse_origin(read_whole_file(path, kMostOriginBytes));
  } catch (const std::runtime_error&) {
    return std::nullopt;
  }
}

void ModelStore::remove(const StoredModel& model) const {
  std::error_code error;
  for (const fs::path& part : model.parts) {
    if (!fs::remove(part, error) && error)
      throw PullError(file_error::file_label(part.string()) + " cannot be deleted (" + error.message() +
                      "); check the permissions of its folder");
    fs::remove(origin_path(part), error);
    fs::remove(part_state_path(part), error);
    fs::remove(part_state_path(part).string() + ".new", error);
  }
  // fs::remove() fails for a folder that is not empty, so the loop ends at the first folder that is in use.
  for (fs::path folder = model.path().parent_path(); folder != folder_ && folder.has_relative_path();
       folder = folder.parent_path())
    if (!fs::remove(folder, error)) break;
}

ModelStore model_store(const Options& options, const Environment& environment) {
  if (!options.models.empty()) {
    const fs::path folder = fs::absolute(options.models).lexically_normal();
    return ModelStore(folder.has_filename() ? folder : folder.parent_path());  // removes a trailing slash
  }
  const std::variant<fs::path, std::string> cache = cache_folder(environment);
  if (const std::string* why = std::get_if<std::string>(&cache))
    throw ReferenceError("there is no folder for models (" + *why + "); --models names one");
  return ModelStore(std::get<fs::path>(cache) / "models");
}

}  // namespace hearth
