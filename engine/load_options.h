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

#include "engine/neurons/placement.h"
#include "engine/neurons/sparsity.h"
#include "engine/prompt_step.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/matmul_kernels.h"
#include "kernels/cuda/hybrid/cuda_bundle_mover.h"
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

/// The longest context used by default: keys and values of one request can take that many tokens, and few local
/// chats are longer.
inline constexpr int kDefaultContext = 8192;

/// LoadOptions::n_kv_contexts: loading decides it, by the memory that is left. Without a GPU: half of the slots, rounded
/// up, as far as they fit beside the file and the work space. With a GPU: one, so that weights come first; if the GPU has
/// all it can have of the model, as many more as its budget has room for, up to the slots (add_contexts()).
inline constexpr int kKvContextsDecided = -1;

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
  int n_slots = 4;         // sequences that run at once
  int context_tokens = 0;  // of one sequence; 0: what the model was trained on, at most kDefaultContext
  int prefill_chunk = kCpuPrefillChunk;  // prompt tokens of one step, at most; 0: see prompt_step()
  // Contexts whose keys and values are in memory at once: all sequences share a pool of so many times context_tokens. With
  // fewer than slots, long sequences may have to wait for each other. More than slots count as many as slots. 0: as many as
  // slots. kKvContextsDecided: see there.
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
  /// Prompts' products on the GPU go to NVIDIA's cuBLASLt, where it can be loaded and no neurons are shared with the CPU.
  /// Meant for long prompts; other bits than the CPU's and than those of generated tokens. False: Hearth's kernels have
  /// them, in the CPU's bits.
  bool fast_prompts = false;
  bool graphs = true;    // record the GPU's steps as CUDA graphs and replay them
  bool prefetch = true;  // copy cold neurons to the GPU before they are needed
  cuda::CopyWay prefetch_way = cuda::CopyWay::kGather;  // how prefetch copies from pinned memory
  bool cpu_share = true;  // false: the CPU computes no neurons of layers that the GPU runs; they are streamed
  /// Chooses the GPU's placement instead of the neutral plan: the placement solver
  /// (profiler/placement/solved_placement.h), or a test. Called on the loading thread with the inputs of the
  /// plan. If the GPU grants fewer bytes than the placement needs (device_bytes), it is called again with a
  /// smaller budget, which the placement should not exceed. If it returns nullopt, the neutral plan is used.
  std::function<std::optional<Placement>(const PlanInputs& inputs, size_t budget_bytes)> choose_placement;

  /// This machine's measured rates, for a prefill_chunk of 0 and for streamed_from().
  PromptRates prompt_rates;

  // Observers.
  Trace* trace = nullptr;  // must outlive the model; null: nothing is traced
  /// Called while the model runs, from any thread, with one sentence about a problem that costs speed.
  std::function<void(const std::string& sentence)> warn;
  std::function<void(double fraction)> progress;  // called from the loading thread, fraction in [0, 1]
};

}  // namespace hearth
