// See the header.
#include "server/models/model_commands.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "engine/residency/memory_limit.h"
#include "kernels/base/file_error.h"
#include "profiler/store/choice.h"
#include "profiler/store/find_model.h"
#include "profiler/store/known_models.h"
#include "profiler/store/model_store.h"
#include "server/json/json.h"
#include "server/models/connect.h"
#include "server/models/pull.h"
#include "server/models/show.h"

namespace hearth {
namespace {

namespace fs = std::filesystem;

void print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw PullError("the result could not be written to the standard output");
}

/// Formats rows as columns. Each column is as wide as its longest text, and two spaces separate columns.
std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const std::vector<std::string>& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i)
      line += row[i] + (i + 1 < row.size() ? std::string(widths[i] - row[i].size() + 2, ' ') : "");
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string size_text(double bytes) { return bytes_text(bytes); }

std::string known_text(bool json) {
  if (json) {
    Json list = Json::array();
    for (const KnownModel& model : known_models()) {
      list.push_back({{"name", model.name},
                      {"reference", model.reference},
                      {"gigabytes", model.gigabytes},
                      {"architecture", model.architecture},
                      {"about", model.about}});
    }
    return list.dump(2) + "\n";
  }
  std::vector<std::vector<std::string>> rows = {{"NAME", "SIZE", "ABOUT"}};
  for (const KnownModel& model : known_models()) {
    rows.push_back({std::string(model.name), size_text(model.gigabytes * 1e9), std::string(model.about)});
  }
  const KnownModel* const recommended = recommended_model(memory_limit_bytes());
  return table(rows) +
         "\nhearthd pull NAME fetches one, and hearthd pull hf:OWNER/REPO[:QUANT] any GGUF model\n"
         "of Hugging Face. hearthd list --known --json names the files.\n" +
         (recommended == nullptr ? std::string()
                                 : "For this machine: hearthd run " + std::string(recommended->name) + "\n");
}

std::string state_of(const StoredModel& model) {
  if (model.unfinished) {
    return "unfinished, " + (model.bytes > 0
                                 ? std::to_string(model.bytes_there * 100 / model.bytes) + " % there"
                                 : size_text(static_cast<double>(model.bytes_there)));
  }
  if (!model.complete())
    return std::to_string(model.parts.size()) + " of " + std::to_string(model.n_parts) + " parts";
  return model.origin ? file_error::file_label(model.origin->pulled.substr(0, 10)) : "";
}

std::string list_text(const ModelStore& store, bool json) {
  const std::vector<StoredModel> models = store.list(true);
  if (json) {
    Json list = Json::array();
    for (const StoredModel& model : models) {
      Json one = {{"name", model.name},
                  {"path", model.path().string()},
                  {"bytes", model.bytes},
                  {"complete", model.complete()}};
      if (model.unfinished) one["bytes_there"] = model.bytes_there;
      if (model.origin) {
        one["source"] = model.origin->source;
        one["commit"] = model.origin->commit;
        one["sha256"] = model.origin->sha256;
        one["pulled"] = model.origin->pulled;
      }
      list.push_back(std::move(one));
    }
    return list.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  if (models.empty()) {
    return "There are no models in " + store.folder().string() +
           " yet; hearthd list --known shows some to pull.\n";
  }
  std::vector<std::vector<std::string>> rows = {{"NAME", "SIZE", "PULLED", "FROM"}};
  for (const StoredModel& model : models) {
    rows.push_back({file_error::file_label(model.name), size_text(static_cast<double>(model.bytes)),
                    state_of(model), model.origin ? file_error::file_label(model.origin->source) : ""});
  }
  return table(rows) + "\nin " + store.folder().string() + "; hearthd NAME serves one.\n";
}

/// Whether another process has locked the file because it serves or downloads it.
bool is_in_use(const fs::path& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return fd && ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0;
}

int remove_models(const ModelStore& store, const CommandInvocation& command) {
  std::vector<StoredModel> doomed;
  for (const std::string& name : command.arguments) {
    const KnownModel* const known = find_known_model(name);
    std::vector<StoredModel> found = store.named(name);
    if (found.empty() && known != nullptr) found = store.named(std::string(known->reference));
    if (found.empty()) {
      throw ReferenceError(file_error::quoted(name, 512) + " is not a model of " + store.folder().string() +
                           "; hearthd list shows those that are");
    }
    // An unfinished download does not make the name ambiguous: it is a newer version of the complete model
    // with this name and is removed with that model.
    std::set<fs::path> folders;
    for (const StoredModel& model : found)
      if (!model.unfinished) folders.insert(model.path());
    if (folders.size() > 1) {
      std::string paths;
      for (const fs::path& path : folders)
        paths += (paths.empty() ? "" : ", ") + file_error::file_label(path.string());
      throw ReferenceError(file_error::file_label(name) +
                           " is the name of several models; give the path of one: " + paths);
    }
    for (StoredModel& model : found) {
      for (const fs::path& part : model.parts) {
        if (command.has("force") || !is_in_use(part)) continue;
        throw PullError(file_error::file_label(part.string()) +
                        (model.unfinished
                             ? " is being pulled by another hearthd; stop that first"
                             : " is being served by a running hearthd; stop it first, or "
                               "say --force: the server then keeps using it until it loads a model again"));
      }
      doomed.push_back(std::move(model));
    }
  }
  for (const StoredModel& model : doomed) {
    store.remove(model);
    const uint64_t bytes = model.unfinished ? model.bytes_there : model.bytes;
    print("removed " + file_error::file_label(model.name) + (model.unfinished ? ", unfinished" : "") + ", " +
          size_text(static_cast<double>(bytes)) + "\n");
  }
  return 0;
}

int show(const CommandInvocation& command, const Environment& environment) {
  const std::string& asked = command.arguments.front();
  const ShowOptions options{.plan = !command.has("no-plan"), .json = command.has("json")};
  const fs::path path = local_model(asked, command.options, environment);
  std::optional<ModelOrigin> origin;
  if (path != fs::path(asked)) origin = model_store(command.options, environment).origin_of_file(path);
  print(show_model(path, origin, options, command.options, environment));
  return 0;
}

int pull(const CommandInvocation& command, const Environment& environment) {
  if (command.arguments.empty()) {
    print(known_text(false));
    return 0;
  }
  const PullOptions options{.model = command.arguments.front(),
                            .sha256 = command.value("sha256"),
                            .token_file = command.value("token-file"),
                            .n_retries = command.number("retries", 8, 0, 100),
                            .any_architecture = command.has("any-architecture")};
  if (command.has("if-missing")) {
    if (const std::optional<fs::path> path = model_in_store(options.model, command.options, environment)) {
      print(path->string() + "\n");
      return 0;
    }
  }
  const PullSignals signals;
  try {
    print(pull_model(options, command.options, environment).string() + "\n");
    return 0;
  } catch (const PullInterrupted&) {
    return 128 + PullSignals::signal();
  }
}

}  // namespace

int run_model_command(const CommandInvocation& command, const Environment& environment) {
  for (const std::string& warning : command.warnings) std::fprintf(stderr, "hearthd: %s\n", warning.c_str());
  const std::string_view name = command.command->name;
  if (name == "pull") return pull(command, environment);
  if (name == "show") return show(command, environment);
  if (name == "connect") return connect_client(command, environment);
  if (name == "rm") return remove_models(model_store(command.options, environment), command);
  const bool json = command.has("json");
  print(command.has("known") ? known_text(json) : list_text(model_store(command.options, environment), json));
  return 0;
}

}  // namespace hearth
