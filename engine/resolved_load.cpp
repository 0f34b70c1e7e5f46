// See the header.
#include "engine/resolved_load.h"

#include <algorithm>
#include <limits>
#include <new>
#include <stdexcept>
#include <utility>
#include <variant>

#include "engine/forward/assistant_pass.h"
#include "engine/forward/kv_memory.h"
#include "engine/forward/nextn_pass.h"
#include "engine/residency/memory_limit.h"
#include "kernels/base/file_error.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/ops/device_types.h"
#include "kernels/cuda/runtime/device.h"

namespace hearth {
namespace {

// A number of slots, tokens per step or threads above this is surely a mistake. The sum of two such numbers
// fits in an int.
constexpr int kMaxOption = 1 << 20;

void check_option(const char* name, int value, int low) {
  if (value >= low && value <= kMaxOption) return;
  throw std::invalid_argument(std::to_string(value) + " " + name + " is not possible; give a number from " +
                              std::to_string(low) + " to " + std::to_string(kMaxOption) + ".");
}

/// Returns the context of one sequence: the requested context or, if none is requested, the default, limited
/// by the model's training context. Throws if the requested context exceeds the training context.
int decide_context(const ModelFile& file, const ModelSpec& spec, int asked) {
  if (asked == 0) return std::min(spec.unindexed_context(), kDefaultContext);
  if (asked > spec.context_train) {
    file_error::fail(file_error::file_label(file.path().string()),
                     "a context of " + std::to_string(asked) +
                         " tokens was asked for, but the model was trained on " +
                         std::to_string(spec.context_train) + ", which is the most it can have.");
  }
  return asked;
}

/// GPU memory that a budget of "auto" leaves free: the larger of a fixed size and a share of the free memory.
/// Recorded graphs and the kernels' own memory use it while the engine runs.
constexpr uint64_t kLeftFree = uint64_t{256} << 20;
constexpr double kLeftShare = 0.03;

/// Memory that serving adds to a process that has opened a model: thread stacks, requests, answers, grammars.
/// A load test with every kind of request (tests/soak.sh) added 8 MB.
constexpr double kServingBytes = 16e6;

/// Returns the number of snapshots of recurrent states that may be kept: as many as fit into `bytes`, but at
/// least one and at most 64, because evicting one compares all. 0 if there are no recurrent layers.
int snapshots_within(double bytes, const ModelSpec& spec) {
  return spec.recurrent ? static_cast<int>(std::clamp(bytes / StateMemory::snapshot_bytes(spec), 1.0, 64.0))
                        : 0;
}

/// Sets the number of contexts in the pool by the rule of kKvContextsDecided. REQUIRES: all other fields are
/// set.
void decide_contexts(Reservation& r, const LoadOptions& options, const LoadFacts& facts, bool has_device) {
  const bool decided = options.n_kv_contexts == kKvContextsDecided;
  r.decides_contexts = decided && has_device;
  int n = contexts_to_plan(options.n_kv_contexts, r.n_slots);
  if (decided && !has_device) {
    const double file = static_cast<double>(facts.file.total_bytes());
    n = contexts_beside(r.free_bytes() - file,  // without keys and values, which are not counted yet
                        r.n_slots, [&](int more) {
                          Reservation of_more = r;
                          set_contexts(of_more, more, facts.spec);
                          return of_more.kv_bytes;
                        });
  }
  set_contexts(r, n, facts.spec);
}

/// Returns the prompt tokens per step: the requested number, or the best one for this model and machine if
/// none is requested.
PromptStep decide_prompt_step(const LoadOptions& options, const LoadFacts& facts, int context_tokens,
                              const DeviceAnswer& device) {
  if (options.prefill_chunk > 0)
    return {.tokens = options.prefill_chunk, .beside_streams = options.prefill_chunk};
  PromptStepFacts step{.spec = facts.spec,
                       .weights = facts.weights,
                       .context_tokens = context_tokens,
                       .n_slots = options.n_slots,
                       .n_kv_contexts = contexts_to_plan(options.n_kv_contexts, options.n_slots),
                       .kv_type = options.kv_type,
                       .device_budget_bytes = std::nullopt,
                       .rates = options.prompt_rates,
                       .nextn = facts.nextn};
  if (device.usable) step.device_budget_bytes = device.budget_bytes;
  return prompt_step(step);
}

/// Sizes the memory for sequences and steps. Throws ModelFileError if the machine lacks memory for this
/// context.
Reservation reserve(const LoadOptions& options, const LoadFacts& facts, int context_tokens,
                    const DeviceAnswer& device) {
  Reservation r;
  r.label = file_error::file_label(facts.file.path().string());
  r.context_tokens = context_tokens;
  r.n_slots = options.n_slots;
  r.prompt_step = decide_prompt_step(options, facts, context_tokens, device);
  // An encoder computes a whole text in one step.
  const int tokens = r.prompt_step.tokens;
  r.bounds = load_bounds(r.context_tokens, options.n_slots,
                         facts.spec.arch.looks_ahead ? std::max(r.context_tokens, tokens) : tokens);
  if (const std::string why = why_not_kv_type(facts.spec, options.kv_type); !why.empty())
    file_error::fail(r.label, why);
  r.kv_counts.type = options.kv_type;
  r.work_bytes = ForwardPass::bytes_needed(facts.spec, r.bounds.max_tokens, r.bounds.max_logit_rows) +
                 IndexerPass::bytes_needed(facts.spec, r.bounds.max_tokens, r.bounds.max_context) +
                 facts.weights.copied_bytes();
  if (facts.nextn != nullptr) {
    r.bounds = bounds_with_nextn(r.bounds, *facts.nextn);
    r.work_bytes += NextnPass::bytes_needed(*facts.nextn, r.bounds);
    r.nextn_kv_position_bytes = NextnPass::kv_position_bytes(*facts.nextn, r.kv_counts.type);
  }
  if (facts.assistant != nullptr) {
    r.bounds = bounds_with_assistant(r.bounds, *facts.assistant);
    r.work_bytes += AssistantPass::bytes_needed(*facts.assistant, r.bounds);
  }
  r.memory_limit_bytes = options.memory_limit_bytes > 0 ? options.memory_limit_bytes : memory_limit_bytes();
  r.bounds.n_snapshots = snapshots_within(static_cast<double>(r.memory_limit_bytes) / 16, facts.spec);
  r.state_bytes = StateMemory::bytes_needed(facts.spec, options.n_slots, r.bounds.n_snapshots);
  if (options.memory_limit_bytes == 0) r.own_bytes = static_cast<double>(anonymous_bytes()) + kServingBytes;
  decide_contexts(r, options, facts, device.usable);
  if (r.free_bytes() < 0) {
    r.refuse("but this process may use " + bytes_text(static_cast<double>(r.memory_limit_bytes)) + " in all");
  }
  if (r.kv_counts.n_blocks > std::numeric_limits<int>::max())
    r.refuse("which is more KV blocks than Hearth can number");
  return r;
}

/// Returns the reason why the options or the model's file rule out the GPU; empty if they allow it.
std::string why_only_cpu(const LoadOptions& options, const LoadFacts& facts, int context_tokens) {
  if (options.activation_bits == ActivationBits::k8) return "--activation-bits 8 runs on the CPU only";
  if (const std::string_view kind = facts.spec.cpu_only_kind(); !kind.empty())
    return "A" + std::string(kind.substr(1)) + " runs on the CPU only";
  if (std::string why = facts.spec.why_context_on_cpu(context_tokens); !why.empty()) return why;
  if (const int head_dim = facts.spec.widest_head_dim(); head_dim > cuda::kDeviceHeadDim) {
    return "Heads of " + std::to_string(head_dim) + " dimensions are longer than the " +
           std::to_string(cuda::kDeviceHeadDim) + " that the GPU's attention takes";
  }
  for (const TensorInfo& tensor : facts.file.tensors()) {
    if (cuda::device_has(tensor.dtype) || is_of_experts(tensor.name)) continue;
    return "Tensor " + file_error::quoted(tensor.name) + " is of type " +
           std::string(dtype_info(tensor.dtype).name) + ", which runs on the CPU only";
  }
  return {};
}

/// Returns the GPU after loading all kernels, or a short phrase with the reason why there is no usable GPU.
std::variant<cuda::Device, std::string> ready_device() try {
  std::variant<cuda::Device, std::string> found = cuda::probe();
  if (std::holds_alternative<cuda::Device>(found)) cuda::load_kernels();
  return found;
} catch (const std::bad_alloc&) {
  return "the GPU has no memory left for Hearth's kernels";
}

/// Throws std::invalid_argument (one sentence) if the options require a GPU but none can be used.
DeviceAnswer choose_device(const LoadOptions& options, const LoadFacts& facts, int context_tokens) {
  DeviceAnswer answer;
  if (options.device == DeviceChoice::kCpu) return answer;
  const bool insists = options.device == DeviceChoice::kCuda;
  const std::variant<cuda::Device, std::string> found = ready_device();
  if (const std::string* reason = std::get_if<std::string>(&found)) {
    if (insists) {
      throw std::invalid_argument("--device cuda was given, but there is no usable GPU: " + *reason +
                                  "; take --device auto or cpu.");
    }
    return answer;
  }
  if (const std::string why = why_only_cpu(options, facts, context_tokens); !why.empty()) {
    if (insists) throw std::invalid_argument(why + "; take --device auto or cpu.");
    answer.notes.push_back(why + ": the GPU is not used");
    return answer;
  }
  const cuda::Device& device = std::get<cuda::Device>(found);
  answer.usable = true;
  answer.name = device.name;
  answer.free_bytes = cuda::free_bytes(device);
  const uint64_t left =
      std::max(kLeftFree, static_cast<uint64_t>(kLeftShare * static_cast<double>(answer.free_bytes)));
  const uint64_t usable = answer.free_bytes - std::min(answer.free_bytes, left);
  answer.budget_bytes = options.vram_budget_bytes.value_or(usable);
  if (answer.budget_bytes > answer.free_bytes) {
    answer.notes.push_back("the GPU has " + bytes_text(static_cast<double>(answer.free_bytes)) + " free, " +
                           bytes_text(static_cast<double>(answer.budget_bytes - answer.free_bytes)) +
                           " less than --vram-budget: the plan is made for what is left");
    answer.budget_bytes = usable;
  }
  if (!options.fast_prompts) return answer;
  if (const std::string why = cuda::why_no_prompt_library(); !why.empty()) {
    answer.notes.push_back("--prompt-products fast: cuBLASLt cannot be loaded (" + why +
                           "), so Hearth's own kernels multiply prompts");
    return answer;
  }
  answer.library = true;
  answer.library_decodes = cuda::library_decodes(device.compute_capability);
  return answer;
}

}  // namespace

void check_options(const LoadOptions& options) {
  check_option("slots", options.n_slots, 1);
  if (options.n_kv_contexts != kKvContextsDecided)
    check_option("contexts in the KV cache", options.n_kv_contexts, 0);
  check_option("prompt tokens per step", options.prefill_chunk, 0);
  check_option("threads", options.n_threads, 0);
  if (options.context_tokens < 0) {
    throw std::invalid_argument("A context of " + std::to_string(options.context_tokens) +
                                " tokens is not possible; give a positive number, or 0 for the model's own.");
  }
}

PassBounds Reservation::pass_bounds(const Plan* plan) const {
  return plan != nullptr ? plan->bounds(bounds) : bounds;
}

void Reservation::refuse(const std::string& why) const {
  const bool one = n_kv_contexts == 1;
  file_error::fail(
      label, (one ? "one context" : std::to_string(n_kv_contexts) + " contexts") + " of " +
                 std::to_string(context_tokens) + (one ? " tokens needs " : " tokens each need ") +
                 bytes_text(kv_bytes) + " for the KV cache" +
                 (state_bytes > 0 ? ", " + bytes_text(state_bytes) + " for recurrent states" : "") + " and " +
                 bytes_text(work_bytes) + " of work space" +
                 (own_bytes > 0 ? ", besides " + bytes_text(own_bytes) + " for the process, " : ", ") + why +
                 "; ask for a smaller context or fewer " + (one ? "slots" : "contexts (--kv-contexts)"));
}

int contexts_beside(double left_bytes, int n_slots, const std::function<double(int n)>& kv_bytes) {
  for (int n = (n_slots + 1) / 2; n > 1; --n) {
    if (kv_bytes(n) <= left_bytes) return n;
  }
  return 1;
}

void set_contexts(Reservation& memory, int n_contexts, const ModelSpec& spec) {
  memory.n_kv_contexts = n_contexts;
  memory.kv_counts = kv_block_counts(spec, memory.context_tokens, n_contexts, memory.prompt_step.tokens,
                                     memory.kv_counts.type);
  const double n_positions = static_cast<double>(memory.kv_counts.n_blocks) * kKvBlockTokens;
  memory.kv_bytes =
      KvMemory::bytes_needed(spec, memory.kv_counts) + memory.nextn_kv_position_bytes * n_positions;
}

ResolvedLoad resolve(const LoadOptions& options, const LoadFacts& facts, const AutoMeasure& measure) {
  const int context_tokens = decide_context(facts.file, facts.spec, options.context_tokens);
  DeviceAnswer device = choose_device(options, facts, context_tokens);
  Reservation memory = reserve(options, facts, context_tokens, device);
  memory.bounds.library = device.library;
  memory.bounds.library_decodes = device.library_decodes;
  const SparsityFacts about{.file = facts.file,
                            .spec = facts.spec,
                            .weights = facts.weights,
                            .has_device = device.usable,
                            .free_memory_bytes = memory.free_bytes()};
  SparsityChoice sparsity =
      choose_sparsity(options.sparsity, about, [&](float threshold) { return measure(memory, threshold); });
  return {std::move(memory), std::move(device), std::move(sparsity)};
}

}  // namespace hearth
