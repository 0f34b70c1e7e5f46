// See the header.
#include "server/sandbox.h"

#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <variant>

#include "kernels/cuda/runtime/device.h"
#include "server/prefix_cache.h"
#include "server/process/landlock.h"
#include "server/process/logging.h"
#include "server/process/seccomp.h"
#include "server/process/start_error.h"

namespace hearth {
namespace {

namespace fs = std::filesystem;

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

/// Adds the folder of a file and, for a link, the folder of the link's target. The file itself would not
/// suffice: Landlock treats a file that an editor or logrotate has replaced as a different file.
void add_folders(const std::string& file, std::vector<fs::path>& folders) {
  if (file.empty()) return;
  folders.push_back(folder_of(file));
  std::error_code error;
  const fs::path target = fs::weakly_canonical(file, error);
  if (!error) folders.push_back(folder_of(target));
}

FileRights needed_files(const Options& options, const CacheFolder& cache) {
  FileRights rights;
  // hearthd reads kernel files about processors, memory and quotas, loads some libraries late, and reads time
  // zones.
  rights.readable = {"/proc",       "/sys", "/usr", "/lib", "/lib64", "/etc/localtime", "/etc/ld.so.cache",
                     "/dev/urandom"};
  rights.writable = {"/dev/null"};
  for (const std::string* file :
       {&options.model, &options.embedding_model, &options.draft_model, &options.chat_template_file,
        &options.api_key_file, &options.tls_cert, &options.tls_key, &options.config})
    add_folders(*file, rights.readable);
  for (const std::string& file : options.more_models) add_folders(file, rights.readable);
  if (!options.models_folder.empty()) {
    rights.readable.emplace_back(options.models_folder);
    std::error_code error;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(options.models_folder, error))
      if (entry.is_symlink(error)) add_folders(entry.path().string(), rights.readable);
  }
  // On SIGHUP, names are searched there.
  if (!options.models.empty()) rights.readable.emplace_back(options.models);
  for (const std::string* file : {&options.log_file, &options.plan_file, &options.expert_trace})
    add_folders(*file, rights.writable);
  if (const fs::path* folder = std::get_if<fs::path>(&cache)) rights.writable.push_back(*folder);
  if (const std::optional<fs::path> folder = prefix_folder(options, cache))
    rights.writable.push_back(*folder);
  return rights;
}

bool uses_gpu(const Options& options) {
  return options.device != Options::Device::kCpu && std::holds_alternative<cuda::Device>(cuda::probe());
}

}  // namespace

Sandbox::Sandbox(const Options& options, const CacheFolder& cache) : options_(options), cache_(cache) {}

void Sandbox::before_threads() {
  if (options_.sandbox == Options::Sandbox::kOff) return log_info("sandbox: off");
  waits_for_gpu_ = uses_gpu(options_);
  if (waits_for_gpu_) return;
  give_up_files();
  give_up_system_calls();
}

void Sandbox::once_loaded() {
  if (!waits_for_gpu_) return;
  waits_for_gpu_ = false;
  log_info("sandbox: with a GPU files are not confined, because its driver opens files of its own");
  give_up_system_calls();
}

void Sandbox::give_up_files() {
  if (count_threads() > 1) return lacks("files", "there are other threads already");
  const std::variant<Landlocked, std::string> result = confine_files(needed_files(options_, cache_));
  if (const std::string* why = std::get_if<std::string>(&result)) return lacks("files", *why);
  const Landlocked& done = std::get<Landlocked>(result);
  log_debug("sandbox: files are confined", {{"landlock", done.abi},
                                            {"tcp", done.network ? "outgoing connections and new ports denied"
                                                                 : "not confined by this kernel"}});
}

void Sandbox::give_up_system_calls() {
  if (const std::optional<std::string> why = deny_system_calls()) return lacks("system calls", *why);
  log_debug("sandbox: system calls are confined", {{"denied", denied_system_calls().size()}});
}

void Sandbox::lacks(const char* part, const std::string& why) const {
  const std::string sentence = std::string("sandbox: ") + part + " are not confined (" + why + ")";
  if (options_.sandbox == Options::Sandbox::kOn)
    throw StartError(sentence + "; --sandbox auto starts without");
  log_warning(sentence);
}

}  // namespace hearth
