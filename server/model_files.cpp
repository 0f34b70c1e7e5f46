// See the header.
#include "server/model_files.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "engine/model/model_spec.h"
#include "kernels/cpu/isa/isa.h"
#include "profiler/engine_options.h"
#include "server/draft_model_file.h"
#include "server/process/start_error.h"

namespace hearth {
namespace {

namespace fs = std::filesystem;

// Real templates have a few KiB. The limit keeps hearthd from reading a large file that was given by mistake.
constexpr std::uintmax_t kMaxTemplateBytes = 1 << 20;

/// Returns the ISA that the options request. nullopt selects the machine's best ISA.
std::optional<Isa> wanted_isa(const Options& options) {
  const std::optional<Isa> isa = engine_isa(options.isa);
  if (!isa) return std::nullopt;
  const std::vector<Isa> supported = supported_isas();
  if (std::find(supported.begin(), supported.end(), *isa) != supported.end()) return isa;
  throw StartError("--isa " + std::string(isa_name(*isa)) + ": " + isa_refusal(*isa));
}

/// Opens a model file and checks its metadata. Throws StartError.
std::shared_ptr<const ModelFile> open_model(const std::string& path, const std::string& ffn_activation) try {
  auto file = std::make_shared<const ModelFile>(ModelFile::open(path));
  read_model_spec(*file, ffn_activation);
  return file;
} catch (const ModelFileError& error) {
  throw StartError(error.what());
} catch (const std::invalid_argument& error) {
  throw StartError(error.what());
}

/// Returns a file's name without ".gguf" and without "-00001-of-00002" of a split file.
std::string own_name(const std::string& path) {
  std::string name = fs::path(path).filename().string();
  if (name.size() > 5 && name.substr(name.size() - 5) == ".gguf") name.resize(name.size() - 5);
  const size_t split = name.rfind("-00001-of-");
  if (split != std::string::npos && split > 0) name.resize(split);
  return name;
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

std::variant<cuda::Device, std::string> find_device(const Options& options) {
  std::variant<cuda::Device, std::string> found = cuda::probe();
  const std::string* reason = std::get_if<std::string>(&found);
  if (reason != nullptr && options.device == Options::Device::kCuda) {
    throw StartError("--device cuda: there is no usable GPU (" + *reason +
                     "); --device auto or cpu runs on the CPU");
  }
  return found;
}

std::string read_template_file(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) throw StartError(path + ": there is no such chat template file");
  if (!std::filesystem::is_regular_file(status) ||
      std::filesystem::file_size(path, error) > kMaxTemplateBytes) {
    throw StartError(path + ": a chat template must be a plain file of at most 1 MiB");
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) throw StartError(path + ": the chat template file cannot be read; check its permissions");
  std::ostringstream text;
  text << in.rdbuf();
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  std::string source = text.str();
  if (source.starts_with(kByteOrderMark)) source.erase(0, kByteOrderMark.size());
  return source;
}

ModelFiles open_checked(const Options& options) {
  if (options.model.empty()) {
    throw StartError(
        "no model was given: say --model FILE.gguf, set HEARTH_MODEL, or put model into the --config file; "
        "hearthd pull shows models to fetch");
  }
  wanted_isa(options);
  if (options.device == Options::Device::kCuda) find_device(options);
  if (!options.chat_template_file.empty()) read_template_file(options.chat_template_file);
  ModelFiles files{
      .model = open_model(options.model, options.ffn_activation), .embedding = nullptr, .draft = nullptr};
  files.draft = open_draft_model(options, *files.model);
  if (options.embedding_model.empty()) return files;
  if (embedding_model_names(options).empty()) {
    throw StartError("--embedding-model " + options.embedding_model +
                     " has the same name as the main model, so requests could not select it; give it another "
                     "name with --embedding-alias");
  }
  files.embedding = open_model(options.embedding_model, {});
  return files;
}

void check_expert_trace(const Options& options, const ModelFiles& files) {
  if (options.expert_trace.empty() || read_model_spec(*files.model, options.ffn_activation).has_experts())
    return;
  throw StartError(
      options.model +
      ": it is no mixture of experts, so there are no experts to trace; leave --expert-trace out");
}

std::vector<std::string> model_names(const Options& options) {
  std::vector<std::string> names;
  for (const std::string& alias : options.alias) {
    if (alias != "*" && !contains(names, alias)) names.push_back(alias);
  }
  const std::string own = own_name(options.model);
  if (!contains(names, own)) names.push_back(own);
  return names;
}

std::vector<std::string> embedding_model_names(const Options& options) {
  const std::vector<std::string> taken = model_names(options);
  std::vector<std::string> asked = options.embedding_alias, names;
  asked.push_back(own_name(options.embedding_model));
  for (std::string& name : asked) {
    if (!contains(taken, name) && !contains(names, name)) names.push_back(std::move(name));
  }
  return names;
}

}  // namespace hearth
