// The options a caller may set when it loads a model.
//
// Plain data. hearthd, hearth-profiler and tests fill it; ModelRuntime::load reads it on the loading thread.
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
#include "kernels/cpu/matmul_kernels.h"
#include "kernels/cuda/sharing/bundle_mover.h"
#include "kernels/kv_layout.h"

namespace hearth {

class ModelFile;
class Trace;
struct PlanInputs;

/// Which device computes.
enum class DeviceChoice : uint8_t {
  kCpu,
  kAuto,  // the GPU if there is one that can be used, else the CPU
  kCuda,  // the GPU; loading fails if there is none
};

/// The longest context used by default: KV memory for it is reserved for each slot, and few local chats are
/// longer.
inline constexpr int kDefaultContext = 8192;

struct LoadOptions {
  // The model.
  std::filesystem::path path;
  /// The same file, if the caller has it open already; null: load() opens `path`. Shared, because hearthd
  /// checks the file before it binds its port, then serves it, and counts neurons with a second model over
  /// the same mapping.
  std::shared_ptr<const ModelFile> file;
  std::string
      ffn_activation;  // name of the FFN's activation where the file does not say it; empty: the file's

  // Slots, context and steps.
  int n_slots = 4;          // sequences that run at once
  int context_tokens = 0;   // of one sequence; 0: what the model was trained on, at most kDefaultContext
  int prefill_chunk = 128;  // prompt tokens of one step, at most
  // Sequences of full length whose keys and values are in memory at once. With fewer than slots, long sequences may have
  // to wait for each other. 0: as many as slots.
  int n_kv_contexts = 0;
  KvType kv_type = KvType::kF16;  // of keys and values in memory

  // The host.
  int n_threads = 0;                                     // 0: one per physical core
  std::optional<Isa> isa;                                // nullopt: the best this processor has
  ActivationBits activation_bits = ActivationBits::k15;  // 8: faster, less exact, and no GPU is used
  /// On a machine with several NUMA nodes: whether memory lies on all of them. Changes the memory policy of the loading
  /// thread and of those it starts (kernels/cpu/numa.h).
  bool spread_memory = true;
  uint64_t memory_limit_bytes = 0;  // limit of memory besides the file; 0: what this machine allows

  // Which neurons are computed.
  SparsityRequest sparsity;
  /// An activity file of this model (engine/activity/activity_file.h), which tells which neurons are hot. It
  /// comes before the files beside the model. If it is empty or does not exist, only the files beside the
  /// model are used.
  std::filesystem::path activity;

  // The GPU.
  DeviceChoice device = DeviceChoice::kCpu;
  std::optional<uint64_t> vram_budget_bytes;  // GPU memory to use; nullopt: all that is free
  DeviceSplit split = DeviceSplit::kAuto;
  bool graphs = true;    // record the GPU's steps as CUDA graphs and replay them
  bool prefetch = true;  // copy cold neurons to the GPU before they are needed
  cuda::CopyWay prefetch_way = cuda::CopyWay::kGather;  // how prefetch copies from pinned memory
  bool cpu_share = true;  // false: the CPU computes no neurons of layers that the GPU runs; they are streamed
  /// Chooses the GPU's placement instead of the neutral plan: the placement solver
  /// (profiler/placement/solved_placement.h), or a test. Called on the loading thread with the inputs of the
  /// plan. If the GPU grants fewer bytes than the placement needs (device_bytes), it is called again with a
  /// smaller budget, which the placement should not exceed. If it returns nullopt, the neutral plan is used.
  std::function<std::optional<Placement>(const PlanInputs& inputs, size_t budget_bytes)> choose_placement;

  // Observers.
  Trace* trace = nullptr;  // must outlive the model; null: nothing is traced
  /// Called while the model runs, from any thread, with one sentence about a problem that costs speed.
  std::function<void(const std::string& sentence)> warn;
  std::function<void(double fraction)> progress;  // called from the loading thread, fraction in [0, 1]
};

}  // namespace hearth
