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
#include "engine/placement/placement_facts.h"
#include "engine/prompt_step.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/isa/matmul_kernels.h"
#include "kernels/kv_layout.h"
#include "kernels/row_copier.h"

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

/// The longest context used by default. One request's keys and values can need that many tokens, and few
/// local chats are longer.
inline constexpr int kDefaultContext = 8192;

/// Value of LoadOptions::n_kv_contexts: loading decides by the free memory. Without a GPU: half of the slots,
/// rounded up, as far as they fit beside the file and the work space. With a GPU: one, so that weights come
/// first; if the GPU holds all it can of the model, as many more as its budget has room for, up to the slots
/// (add_contexts()).
inline constexpr int kKvContextsDecided = -1;

struct LoadOptions {
  // The model.
  std::filesystem::path path;
  /// The file at `path`, if the caller has already opened it; null: load() opens it. Shared, because hearthd
  /// checks the file before it binds its port, then serves it, and counts neurons with a second model over
  /// the same mapping.
  std::shared_ptr<const ModelFile> file;
  /// name of the FFN's activation, for files that do not state it; empty: the file's
  std::string ffn_activation;

  // Slots, context and steps.
  int n_slots = 4;         // sequences that run at once
  int context_tokens = 0;  // per sequence; 0: the model's training context, at most kDefaultContext
  int prefill_chunk = kCpuPrefillChunk;  // most prompt tokens in one step; 0: see prompt_step()
  // Number of contexts whose keys and values are in memory at once: all sequences share a pool of
  // n_kv_contexts * context_tokens. If it is below n_slots, long sequences may have to wait for each other.
  // Values above n_slots count as n_slots. 0: n_slots. kKvContextsDecided: loading decides.
  int n_kv_contexts = 0;
  KvType kv_type = KvType::kF16;  // type of the keys and values in memory

  // The host.
  int n_threads = 0;                                     // 0: one per physical core
  std::optional<Isa> isa;                                // nullopt: the best ISA that this processor has
  ActivationBits activation_bits = ActivationBits::k15;  // k8: faster, less exact, and no GPU is used
  /// Whether memory is spread over all NUMA nodes, if the machine has several. Changes the memory policy of
  /// the loading thread and of threads that it starts (kernels/cpu/threads/numa.h).
  bool spread_memory = true;
  uint64_t memory_limit_bytes = 0;  // limit of memory besides the file; 0: the machine's limit

  // Which neurons are computed.
  SparsityRequest sparsity;
  /// An activity file of this model (engine/activity/activity_file.h), which tells which neurons are hot. It
  /// takes precedence over the files beside the model. If the path is empty or does not exist, only the files
  /// beside the model are used.
  std::filesystem::path activity;

  // The GPU.
  DeviceChoice device = DeviceChoice::kCpu;
  std::optional<uint64_t> vram_budget_bytes;  // GPU memory to use; nullopt: all that is free
  DeviceSplit split = DeviceSplit::kAuto;
  /// cuBLASLt multiplies prompts on the GPU, if it can be loaded and no neurons are shared with the CPU.
  /// Meant for long prompts; the results differ in their bits from the CPU's and from those of generated
  /// tokens. False: Hearth's kernels multiply prompts, with the CPU's bits.
  bool fast_prompts = false;
  bool graphs = true;                       // record the GPU's steps as CUDA graphs and replay them
  bool prefetch = true;                     // copy cold neurons to the GPU before they are needed
  CopyWay prefetch_way = CopyWay::kGather;  // how prefetch copies from pinned memory
  bool cpu_share = true;  // false: the CPU computes no neurons in layers that the GPU runs; they are streamed
  /// The facts from which place_model() decides which parts of the model the GPU gets.
  PlacementFacts placement;
  /// For tests: decides instead of place_model(). Called on the loading thread with the inputs of the plan.
  /// If the GPU grants fewer bytes than the placement needs, it is called again with a smaller budget.
  std::function<Placement(const PlanInputs& inputs, size_t budget_bytes)> choose_placement;

  /// This machine's measured rates, for a prefill_chunk of 0 and for streamed_from().
  PromptRates prompt_rates;

  // Observers.
  Trace* trace = nullptr;  // must outlive the model; null: no trace
  /// Called while the model runs, from any thread, with one sentence about a problem that reduces speed.
  std::function<void(const std::string& sentence)> warn;
  std::function<void(double fraction)> progress;  // called from the loading thread, fraction in [0, 1]
};

}  // namespace hearth
