// See the header.
#include "engine/resolved_load.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>
#include <variant>

#include "engine/forward/kv_memory.h"
#include "engine/model/gguf/fault.h"
#include "engine/residency/memory_limit.h"
#include "kernels/cuda/device_types.h"
#include "kernels/cuda/runtime/device.h"

namespace hearth {
namespace {

// More slots, tokens per step or threads than this are a mistake; sums of two such numbers fit an int.
constexpr int kMaxOption = 1 << 20;

void check_option(const char* name, int value, int low) {
  if (value >= low && value <= kMaxOption) return;
  throw std::invalid_argument(std::to_string(value) + " " + name + " cannot be; give a number from " +
                              std::to_string(low) + " to " + std::to_string(kMaxOption) + ".");
}

/// The context of one sequence: the requested one, or the default within the model's limits. Throws if the
/// request exceeds those limits.
int decide_context(const ModelFile& file, const ModelSpec& spec, int asked) {
  if (asked == 0) return std::min(spec.context_train, kDefaultContext);
  if (asked > spec.context_train) {
    gguf::fail(gguf::file_label(file.path().string()),
               "a context of " + std::to_string(asked) +
                   " tokens was asked for, but the model was trained on " +
                   std::to_string(spec.context_train) + ", which is the most it can have.");
  }
  return asked;
}

/// Part of the GPU's memory that a budget of "auto" leaves free: recorded graphs and kernels' own memory grow
/// while the engine runs.
constexpr uint64_t kLeftFree = uint64_t{256} << 20;
constexpr double kLeftShare = 0.03;

/// Throws ModelFileError if the model does not support such a context, or the machine lacks the memory for
/// it.
Reservation reserve(const LoadOptions& options, const LoadFacts& facts) {
  Reservation r;
  r.label = gguf::file_label(facts.file.path().string());
  r.context_tokens = decide_context(facts.file, facts.spec, options.context_tokens);
  r.n_slots = options.n_slots;
  r.n_kv_contexts = options.n_kv_contexts > 0 ? options.n_kv_contexts : options.n_slots;
  // An encoder sees the whole of a text in one step.
  const int chunk =
      facts.spec.arch.looks_ahead ? std::max(r.context_tokens, options.prefill_chunk) : options.prefill_chunk;
  r.bounds = load_bounds(r.context_tokens, options.n_slots, chunk);
  if (const std::string why = why_not_kv_type(facts.spec, options.kv_type); !why.empty())
    gguf::fail(r.label, why);
  r.kv_counts =
      kv_block_counts(facts.spec, r.context_tokens, r.n_kv_contexts, options.prefill_chunk, options.kv_type);
  r.kv_bytes = KvMemory::bytes_needed(facts.spec, r.kv_counts);
  r.work_bytes = ForwardPass::bytes_needed(facts.spec, r.bounds.max_tokens, r.bounds.max_logit_rows) +
                 facts.weights.turned_bytes();
  r.memory_limit_bytes = options.memory_limit_bytes > 0 ? options.memory_limit_bytes : memory_limit_bytes();
  if (r.kv_bytes + r.work_bytes > static_cast<double>(r.memory_limit_bytes)) {
    r.refuse("but this process may use " + bytes_text(static_cast<double>(r.memory_limit_bytes)) + " in all");
  }
  if (r.kv_counts.n_blocks > std::numeric_limits<int>::max()) r.refuse("more than can be numbered");
  return r;
}

/// Why the options or the model's file keep the GPU out; empty: nothing does.
std::string why_only_cpu(const LoadOptions& options, const LoadFacts& facts) {
  if (options.sparsity.mode == "calibrated") return "--sparsity calibrated runs on the CPU only";
  if (options.activation_bits == ActivationBits::k8) return "--activation-bits 8 runs on the CPU only";
  if (facts.spec.arch.looks_ahead) return "An encoder runs on the CPU only";
  if (facts.spec.head_dim > cuda::kDeviceHeadDim) {
    return "Heads of " + std::to_string(facts.spec.head_dim) + " dimensions are longer than the " +
           std::to_string(cuda::kDeviceHeadDim) + " that the GPU's attention takes";
  }
  for (const TensorInfo& tensor : facts.file.tensors()) {
    if (cuda::device_has(tensor.dtype) || is_of_experts(tensor.name)) continue;
    return "Tensor " + gguf::quoted(tensor.name) + " is of type " +
           std::string(dtype_info(tensor.dtype).name) + ", which runs on the CPU only";
  }
  return {};
}

/// Throws std::invalid_argument (one sentence) if the options require a GPU and none can be used.
DeviceAnswer choose_device(const LoadOptions& options, const LoadFacts& facts) {
  DeviceAnswer answer;
  if (options.device == DeviceChoice::kCpu) return answer;
  const bool insists = options.device == DeviceChoice::kCuda;
  const std::variant<cuda::Device, std::string> found = cuda::probe();
  if (const std::string* reason = std::get_if<std::string>(&found)) {
    if (insists) {
      throw std::invalid_argument("--device cuda was asked for, but there is no GPU that can be used: " +
                                  *reason + "; take --device auto or cpu.");
    }
    return answer;
  }
  if (const std::string why = why_only_cpu(options, facts); !why.empty()) {
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
  return answer;
}

}  // namespace

void check_options(const LoadOptions& options) {
  check_option("slots", options.n_slots, 1);
  check_option("contexts of keys and values", options.n_kv_contexts, 0);
  check_option("prompt tokens per step", options.prefill_chunk, 1);
  check_option("threads", options.n_threads, 0);
  if (options.context_tokens < 0) {
    throw std::invalid_argument("A context of " + std::to_string(options.context_tokens) +
                                " tokens cannot be; give a positive number, or 0 for the model's own.");
  }
}

PassBounds Reservation::pass_bounds(bool shares, size_t stream_bytes) const {
  PassBounds pass = bounds;
  pass.shares = shares;
  pass.stream_bytes = stream_bytes;
  return pass;
}

void Reservation::refuse(const std::string& why) const {
  gguf::fail(label, "a context of " + std::to_string(context_tokens) + " tokens for each of " +
                        std::to_string(n_kv_contexts) + (n_kv_contexts == 1 ? " slot" : " slots") +
                        " needs " + bytes_text(kv_bytes) + " for keys and values and " +
                        bytes_text(work_bytes) + " of work space, " + why +
                        "; ask for a smaller context or fewer slots");
}

ResolvedLoad resolve(const LoadOptions& options, const LoadFacts& facts, const AutoMeasure& measure) {
  Reservation memory = reserve(options, facts);
  DeviceAnswer device = choose_device(options, facts);
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
