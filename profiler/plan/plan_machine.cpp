// Implements set_machine().
#include "profiler/plan/plan_machine.h"

#include <optional>
#include <utility>

#include "kernels/cuda/cuda_backend.h"
#include "profiler/machine/known_machine.h"

namespace hearth {
namespace {

/// Returns the number of prompt tokens per step that the engine would choose when it loads the model on this
/// machine.
int chosen_prefill_chunk(const PlanQuestion& question) {
  PromptStepFacts facts{.spec = question.model.spec,
                        .weights = question.model.weights,
                        .context_tokens = question.load.context_tokens,
                        .n_slots = question.load.n_slots,
                        .n_kv_contexts = question.load.contexts_to_plan(),
                        .kv_type = question.load.kv_type,
                        .device_budget_bytes = std::nullopt,
                        .rates = prompt_rates(question.machine),
                        .nextn = question.model.nextn.get()};
  if (question.machine.gpu) {
    facts.device_budget_bytes =
        static_cast<uint64_t>(question.vram_bytes.value_or(usable_vram(question.machine.gpu->vram_bytes)));
  }
  return prompt_step(facts).tokens;
}

}  // namespace

std::string set_machine(PlanQuestion& question, MachineProfile machine) {
  question.machine = std::move(machine);
  std::string lost;
  const std::optional<DType> cpu_only = question.model.cpu_only_type();
  const std::string long_context = question.model.spec.why_context_on_cpu(question.load.context_tokens);
  if ((cpu_only || !long_context.empty()) && question.machine.gpu) {
    lost = cpu_only ? "weights of type " + std::string(dtype_info(*cpu_only).name) +
                          " are multiplied on the CPU only"
                    : "a" + long_context.substr(1);
    question.machine.gpu.reset();
    question.machine.name += " without its GPU, as " + lost;
  }
  if (const std::optional<GpuProfile>& gpu = question.machine.gpu)
    question.load.library_decodes = cuda::library_decodes({gpu->compute_major, gpu->compute_minor});
  if (question.load.prefill_chunk == 0) question.load.prefill_chunk = chosen_prefill_chunk(question);
  return lost;
}

}  // namespace hearth
