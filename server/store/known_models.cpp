// Quantizations and sizes are copied from the repositories' pages, to which docs/models.md links.
#include "server/store/known_models.h"

#include <array>

#include "server/store/reference.h"

namespace hearth {
namespace {

constexpr auto kModels = std::to_array<KnownModel>({
    {"llama-3.2-1b", "hf:bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M", 0.81, "llama",
     "small and quick, any machine"},
    {"smollm3-3b", "hf:bartowski/HuggingFaceTB_SmolLM3-3B-GGUF:Q4_K_M", 1.92, "smollm3",
     "open in every part, thinks if asked"},
    {"gemma-3-4b", "hf:bartowski/google_gemma-3-4b-it-GGUF:Q4_K_M", 2.49, "gemma3",
     "many languages; text only here"},
    {"qwen3-4b", "hf:bartowski/Qwen_Qwen3-4B-GGUF:Q4_K_M", 2.50, "qwen3", "thinks, calls tools"},
    {"qwen3-8b", "hf:bartowski/Qwen_Qwen3-8B-GGUF:Q6_K", 6.73, "qwen3", "the same, larger and less rounded"},
    {"gpt-oss-20b", "hf:bartowski/openai_gpt-oss-20b-GGUF:MXFP4", 12.1, "gpt-oss",
     "mixture of experts, thinks, calls tools"},
});

}  // namespace

std::span<const KnownModel> known_models() { return kModels; }

const KnownModel* find_known_model(std::string_view name) {
  for (const KnownModel& model : kModels)
    if (lower_case(name) == model.name) return &model;
  return nullptr;
}

}  // namespace hearth
