// See the header.
#include "server/prefix_cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <variant>

#include "config/version.h"
#include "engine/model/ffn_activation.h"
#include "engine/model/gguf/gguf_value.h"
#include "engine/model/model_identity.h"
#include "engine/model/predictor_file.h"
#include "profiler/engine_options.h"
#include "server/process/logging.h"

namespace hearth {
namespace {

namespace fs = std::filesystem;

uint64_t max_bytes_of(const Options& options) { return bytes_of_gib(options.cache_gib.value_or(0)); }

/// Returns the reason why the folder cannot be used, as a phrase.
std::optional<std::string> why_not_usable(const fs::path& folder) {
  struct stat about {};
  if (::stat(folder.c_str(), &about) != 0) return std::generic_category().message(errno);
  if (!S_ISDIR(about.st_mode)) return "it is not a folder";
  // Whoever can write a file can change answers.
  if ((about.st_mode & (S_IWGRP | S_IWOTH)) != 0) return "other users may write to it; run chmod 700 on it";
  return std::nullopt;
}

/// Returns a hash of everything that the bits of keys, values and states depend on, and of their sizes.
PrefixKey identity_of(const ModelRuntime& runtime, const Options& options, const std::string& version) {
  Sha256Stream hash;
  const auto add = [&](const std::string& text) {
    const std::string line = std::to_string(text.size()) + ':' + text + '\n';
    hash.add(std::as_bytes(std::span(line)));
  };
  // The program.
  add(version);
  add(build_facts().commit);
  add(build_facts().compiler);
  // The model. The content hash reads a part of each tensor only, so the file's size and time are added.
  const ModelFile& file = runtime.facts().file;
  add(hex_text(content_hash(file)));
  for (const std::string_view key : file.keys()) {
    add(std::string(key));
    if (const gguf::Value* value = file.find_value(key)) hash.add(value->bytes);
  }
  add(std::to_string(file.total_bytes()));
  for (const fs::path& path : {file.path(), predictor_file_path(file.path())}) {
    std::error_code missing;
    const fs::file_time_type time = fs::last_write_time(path, missing);
    add(missing ? "" : std::to_string(time.time_since_epoch().count()));
  }
  // Include the arithmetic. The backend's description begins with the instruction set; the number of threads
  // after that is left out, because results do not depend on it.
  const PlacedModel& placed = runtime.placed();
  add(placed.backend.substr(0, placed.backend.find(',')));
  add(options.activation_bits == Options::ActivationBits::k8 ? "8" : "15");
  add(std::string(sparsity_name(placed.sparsity.mode)));
  add(std::to_string(placed.sparsity.predictor_threshold));
  add(ffn_activation_name(runtime.facts().spec.activation));
  add(std::to_string(placed.order_hash));
  add(std::to_string(runtime.facts().context_tokens));  // some models turn positions by it
  // The layout.
  const StepLimits limits = runtime.limits();
  add(kv_type_name(placed.kv_type));
  add(std::to_string(limits.block_tokens));
  add(std::to_string(limits.block_bytes));
  add(std::to_string(limits.state_bytes));
  return hash.finish();
}

}  // namespace

std::optional<fs::path> prefix_folder(const Options& options, const CacheFolder& cache) {
  if (max_bytes_of(options) == 0) return std::nullopt;
  if (!options.cache_dir.empty()) return fs::path(options.cache_dir);
  if (const fs::path* folder = std::get_if<fs::path>(&cache)) return *folder / "prefixes";
  return std::nullopt;
}

void make_prefix_folder(const Options& options, const CacheFolder& cache) {
  if (max_bytes_of(options) == 0) return;
  const std::optional<fs::path> folder = prefix_folder(options, cache);
  if (!folder) {
    log_warning("disk cache: off, because there is no cache folder (" + std::get<std::string>(cache) +
                "); --cache-dir names another folder");
    return;
  }
  std::error_code error;
  if (folder->has_parent_path()) fs::create_directories(folder->parent_path(), error);
  ::mkdir(folder->c_str(), 0700);
}

DiskCacheOptions prefix_options(const Options& options, const CacheFolder& cache, const ModelRuntime& runtime,
                                const std::string& version) {
  const std::optional<fs::path> folder = prefix_folder(options, cache);
  if (!folder || !runtime.facts().spec.arch.has_output) return {};
  if (!runtime.limits().copies) {
    log_warning("disk cache: off, because the KV cache is on the GPU; --device cpu keeps prefixes");
    return {};
  }
  if (const std::optional<std::string> why = why_not_usable(*folder)) {
    log_warning("disk cache: off, because " + folder->string() + " cannot be used: " + *why);
    return {};
  }
  const uint64_t max_bytes = max_bytes_of(options);
  return {.folder = *folder,
          .max_bytes = max_bytes,
          .model = identity_of(runtime, options, version),
          .warn = [](const std::string& sentence) { log_warning(sentence); },
          .opened =
              [folder = folder->string(), max_bytes](const BlockFiles::Contents& there) {
                log_info("disk cache", {{"folder", folder},
                                        {"bytes", there.bytes},
                                        {"files", there.n_files},
                                        {"max_bytes", max_bytes}});
              }};
}

}  // namespace hearth
