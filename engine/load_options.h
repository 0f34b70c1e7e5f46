// What a caller may ask for when a model is loaded.
//
// Plain data, filled by hearthd, hearth-profiler and tests; read by ModelRuntime::load on the loading thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "engine/residency/placement.h"
#include "engine/residency/sparsity.h"
#include "kernels/cpu/isa.h"
#include "kernels/cuda/sharing/bundle_mover.h"

namespace hearth {

class ModelFile;
class Trace;
struct PlanInputs;

/// Which device computes.
enum class DeviceChoice : uint8_t {
  kCpu,
  kAuto,  // the GPU if there is one that can be used, else the CPU
  kCuda,  // the GPU; without one loading fails
};

/// The longest context taken by default: KV memory for it is reserved per slot, and few local chats are
/// longer.
inline constexpr int kDefaultContext = 8192;

struct LoadOptions {
  // The model.
  std::filesystem::path path;
  /// The same file, if the caller has it open already; null: load() opens `path`. Shared, because hearthd
  /// checks it before it binds its port, serves it, and counts neurons with a second model over the same
  /// mapping.
  std::shared_ptr<const ModelFile> file;
  std::string
      ffn_activation;  // name of the FFN's activation where the file does not say it; empty: the file's

  // How much it serves.
  int n_slots = 4;          // sequences that run at once
  int context_tokens = 0;   // of one sequence; 0: what the model was trained on, at most kDefaultContext
  int prefill_chunk = 128;  // prompt tokens of one step, at most

  // The host.
  int n_threads = 0;                // 0: one per physical core
  std::optional<Isa> isa;           // nullopt: the best this processor has
  uint64_t memory_limit_bytes = 0;  // of what is reserved besides the file; 0: what this machine allows

  // Which neurons are computed.
  SparsityRequest sparsity;
  /// An activity file of this model (engine/activity/activity_file.h), which says which neurons are hot. It is
  /// looked for before the files beside the model; empty, or no such file: only those are looked for.
  std::filesystem::path activity;

  // The GPU.
  DeviceChoice device = DeviceChoice::kCpu;
  std::optional<uint64_t> vram_budget_bytes;  // of the GPU's memory; nullopt: what is free of it
  DeviceSplit split = DeviceSplit::kNeurons;
  bool graphs = true;    // the GPU's steps are recorded and played back
  bool prefetch = true;  // cold neurons are brought to the GPU ahead of their use
  cuda::CopyWay prefetch_way = cuda::CopyWay::kGather;  // how, where their memory is pinned
  bool cpu_share = true;  // false: the CPU computes no neurons of layers that the GPU runs; they are streamed
  /// Chooses what the GPU gets, in place of the neutral plan: the placement solver
  /// (profiler/placement/solved_placement.h), or a test. Called on the loading thread with the inputs of the
  /// plan. Where the GPU grants less than the answer takes (device_bytes), it is called again with a smaller
  /// budget, which the answer should keep to. nullopt: the neutral plan is taken after all.
  std::function<std::optional<Placement>(const PlanInputs& inputs, size_t budget_bytes)> choose_placement;

  // Who is told what happens.
  Trace* trace = nullptr;  // outlives the model; null: nothing is traced
  /// Called while the model runs, from any thread, with one sentence about trouble that costs speed.
  std::function<void(const std::string& sentence)> warn;
  std::function<void(double fraction)> progress;  // called from the loading thread, fraction in [0, 1]
};

}  // namespace hearth
