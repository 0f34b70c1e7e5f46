// The options that a caller may set when it loads a model.
//
// Plain data. hearthd, hearth-profiler and tests fill LoadOptions; ModelRuntime::load reads it on the loading
// thread.
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
  kAuto,  // the GPU if there is a usable one, else the CPU
  kCuda,  // the GPU; loading fails if there is none
};

/// The longest context that is used by default, in tokens. A longer context needs more memory for keys and
/// values, and few local chats are longer.
inline constexpr int kDefaultContext = 8192;

/// A value of LoadOptions::n_kv_contexts: loading chooses the number of contexts by the free memory. Without
/// a GPU, the number is half of the slots, rounded up, or fewer if that many contexts do not fit beside the
/// file and the work space. With a GPU, planning starts with one context, so that weights get the GPU's
/// memory first. If the GPU then holds all parts of the model that it can run, add_contexts() adds as many
/// contexts as the rest of the budget allows, up to the number of slots.
inline constexpr int kKvContextsDecided = -1;

struct LoadOptions {
  // The model.
  std::filesystem::path path;
  /// The file at `path`, if the caller has already opened it; null: load() opens it. Shared, because hearthd
  /// checks the file before it binds its port and serves the model afterward. hearthd also counts neurons
  /// with a second model that uses the same mapping.
  std::shared_ptr<const ModelFile> file;
  /// name of the FFN's activation, for files that do not state it; empty: use the activation that the file or
  /// the architecture specifies
  std::string ffn_activation;

  // Slots, context and steps.
  int n_slots = 4;         // sequences that run at once
  int context_tokens = 0;  // tokens per sequence; 0: ModelSpec::unindexed_context(), at most kDefaultContext
  int prefill_chunk = kCpuPrefillChunk;  // maximum number of prompt tokens in one step; 0: see prompt_step()
  // Number of contexts whose keys and values fit in memory at once: all sequences share a pool for
  // n_kv_contexts * context_tokens positions. With fewer contexts than slots, long sequences may have to wait
  // for each other. 0 and values above n_slots count as n_slots. kKvContextsDecided: loading decides.
  int n_kv_contexts = 0;
  KvType kv_type = KvType::kF16;  // type of the keys and values in memory

  // The host.
  int n_threads = 0;                                     // 0: one per physical core
  std::optional<Isa> isa;                                // nullopt: the best ISA that this processor has
  ActivationBits activation_bits = ActivationBits::k15;  // k8 is faster and less exact, and uses no GPU
  /// Whether memory is spread over all NUMA nodes, if the machine has several. Changes the memory policy of
  /// the loading thread and of threads that it starts (kernels/cpu/threads/numa.h).
  bool spread_memory = true;
  uint64_t memory_limit_bytes = 0;  // maximum memory used besides the file; 0: the machine's limit

  /// Whether the model's own layer that predicts later tokens drafts, if it has one (nextn_weights.h). The
  /// layer then takes memory and computes all tokens; a model without this layer loads in the same way.
  bool nextn = false;
  /// A file with an assistant (assistant_weights.h), which then drafts for the model. Null: none.
  std::shared_ptr<const ModelFile> assistant = nullptr;

  // Which neurons are computed.
  SparsityRequest sparsity;
  /// The path of an activity file of this model (engine/activity/activity_file.h), which lists how often each
  /// neuron is active. It takes precedence over the files beside the model. If the path is empty or does not
  /// exist, only the files beside the model are used.
  std::filesystem::path activity;

  // The GPU.
  DeviceChoice device = DeviceChoice::kCpu;
  std::optional<uint64_t> vram_budget_bytes;  // GPU memory to use; nullopt: all free memory, less a reserve
  DeviceSplit split = DeviceSplit::kAuto;
  /// Whether cuBLASLt multiplies prompts on the GPU. Has no effect if the library cannot be loaded or if the
  /// GPU shares neurons with the CPU. Meant for long prompts. The library's results differ in some bits from
  /// the CPU's, and from the results for generated tokens. If false, Hearth's kernels multiply prompts, with
  /// results that equal the CPU's in all bits.
  bool fast_prompts = false;
  /// Whether a sample of the steps computes mixtures of experts a second time, on the CPU alone, and compares
  /// the results (engine/forward/mixture_verifier.h).
  bool verify = false;
  bool graphs = true;  // record the GPU's steps as CUDA graphs and replay them
  // Copy cold neurons to the GPU before they are needed, and exchange the experts that it holds.
  bool prefetch = true;
  CopyWay prefetch_way = CopyWay::kGather;  // how prefetch copies from pinned memory
  bool cpu_share = true;  // false: the CPU computes no neurons in layers that the GPU runs; the GPU streams
                          // the neurons that it does not hold
  /// The facts from which place_model() decides which parts of the model the GPU gets.
  PlacementFacts placement;
  /// For tests: called instead of place_model(), on the loading thread, with the inputs of the plan. If the
  /// GPU grants fewer bytes than the placement needs, this function is called again with a smaller budget.
  std::function<Placement(const PlanInputs& inputs, size_t budget_bytes)> choose_placement;

  /// This machine's measured rates. They determine prefill_chunk if it is 0, and the result of
  /// streamed_from() (prompt_step.h).
  PromptRates prompt_rates;

  // Observers.
  Trace* trace = nullptr;  // must outlive the model; null: no trace
  /// Called from any thread while the model loads or runs, with one sentence about a problem that reduces
  /// speed or makes results wrong.
  std::function<void(const std::string& sentence)> warn;
  std::function<void(double fraction)> progress;  // called from the loading thread, fraction in [0, 1]
};

}  // namespace hearth
