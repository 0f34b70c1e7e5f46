// The folder of prefixes that are kept on disk (--cache-gib, --cache-dir), and what they depend on.
//
// Daemon makes the folder before the sandbox; ServingModel passes the options to its engine
// (engine/serving/disk_prefixes.h).
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "config/options.h"
#include "engine/kv/disk_cache.h"
#include "engine/model_runtime.h"
#include "server/serving_model.h"

namespace hearth {

/// Returns the folder of prefixes, which need not exist. Returns nullopt if none are kept on disk.
std::optional<std::filesystem::path> prefix_folder(const Options& options, const CacheFolder& cache);

/// Makes the folder, which only its owner may use. Warns if it cannot be used. Call it before the sandbox.
void make_prefix_folder(const Options& options, const CacheFolder& cache);

/// Returns the options for a loaded model's engine. If no prefixes are kept, max_bytes is 0. The engine logs
/// the folder's contents when it begins to use the folder.
DiskCacheOptions prefix_options(const Options& options, const CacheFolder& cache, const ModelRuntime& runtime,
                                const std::string& version);

}  // namespace hearth
