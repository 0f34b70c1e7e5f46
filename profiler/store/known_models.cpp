// Quantizations and sizes are copied from the repositories' pages, to which docs/quickstart.md links; those
// of models published in 2026 come from other people's lists of these files, most of which state exact bytes.
#include "profiler/store/known_models.h"

#include <algorithm>
#include <array>
#include <optional>

#include "config/suggest.h"
#include "profiler/store/reference.h"

namespace hearth {
namespace {

constexpr auto kModels = std::to_array<KnownModel>({
    {"llama-3.2-1b", "hf:bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M", 0.81, 0.81, "llama",
     "small and quick, for any machine"},
    {"smollm3-3b", "hf:bartowski/HuggingFaceTB_SmolLM3-3B-GGUF:Q4_K_M", 1.92, 1.92, "smollm3",
     "data and code are open; thinks if asked"},
    {"gemma-3-4b", "hf:bartowski/google_gemma-3-4b-it-GGUF:Q4_K_M", 2.49, 2.49, "gemma3",
     "many languages; text only"},
    {"qwen3-4b", "hf:bartowski/Qwen_Qwen3-4B-GGUF:Q4_K_M", 2.50, 2.5, "qwen3", "thinks, calls tools"},
    {"qwen3-8b", "hf:bartowski/Qwen_Qwen3-8B-GGUF:Q6_K", 6.73, 6.73, "qwen3", "thinks, calls tools"},
    {"qwen3.5-4b", "hf:unsloth/Qwen3.5-4B-GGUF:UD-Q4_K_XL", 2.9, 2.9, "qwen35",
     "thinks, calls tools; recurrent layers"},
    {"qwen3.5-9b", "hf:unsloth/Qwen3.5-9B-GGUF:UD-Q4_K_XL", 6.0, 6.0, "qwen35",
     "thinks, calls tools; recurrent layers"},
    {"qwen3.8-27b", "hf:unsloth/Qwen3.8-27B-GGUF:Q4_K_M", 17.1, 17.1, "qwen35",
     "thinks, calls tools; for 24 GB of VRAM"},
    {"qwen3.6-35b-a3b", "hf:unsloth/Qwen3.6-35B-A3B-GGUF:UD-Q4_K_M", 22.1, 2.2, "qwen35moe",
     "mixture; thinks, calls tools"},
    {"qwen3.6-35b-a3b-mtp", "hf:unsloth/Qwen3.6-35B-A3B-MTP-GGUF:UD-Q4_K_XL", 22.9, 2.3, "qwen35moe",
     "mixture; a layer predicts later tokens"},
    {"gemma-4-e4b", "hf:unsloth/gemma-4-E4B-it-GGUF:Q4_K_M", 4.98, 2.9, "gemma4",
     "many languages, calls tools; text only"},
    {"gemma-4-26b-a4b", "hf:unsloth/gemma-4-26B-A4B-it-GGUF:UD-Q4_K_XL", 17.0, 2.7, "gemma4",
     "mixture; many languages; text only"},
    {"nemotron-3-nano", "hf:unsloth/Nemotron-3-Nano-30B-A3B-GGUF:UD-Q4_K_XL", 22.8, 2.4, "nemotron_h_moe",
     "mixture, Mamba-2; thinks, calls tools"},
    {"lfm2-8b-a1b", "hf:LiquidAI/LFM2-8B-A1B-GGUF:Q4_K_M", 5.04, 1.0, "lfm2moe", "mixture; quick on a CPU"},
    {"gpt-oss-20b", "hf:bartowski/openai_gpt-oss-20b-GGUF:MXFP4", 12.1, 2.2, "gpt-oss",
     "mixture; thinks, calls tools"},
    {"smallthinker-4b-a0.6b",
     "hf:Tiiny/SmallThinker-4BA0.6B-Instruct-GGUF:SmallThinker-4B-A0.6B-Instruct.Q4_K_S.gguf", 2.49, 0.5,
     "smallthinker", "mixture of ReLU experts; inactive neurons are skipped"},
    {"qwen2.5-coder-7b", "hf:bartowski/Qwen2.5-Coder-7B-Instruct-GGUF:Q4_K_M", 4.68, 4.68, "qwen2",
     "writes code, fills in the middle"},
    {"nomic-embed-text", "hf:nomic-ai/nomic-embed-text-v1.5-GGUF:Q8_0", 0.146, 0, "nomic-bert",
     "embeddings of texts"},
});

}  // namespace

std::span<const KnownModel> known_models() { return kModels; }

const KnownModel* find_known_model(std::string_view name) {
  const std::string wanted = letters_and_digits(name);
  for (const KnownModel& model : kModels)
    if (wanted == letters_and_digits(model.name)) return &model;
  return nullptr;
}

const KnownModel* recommended_model(uint64_t memory_bytes) {
  // Beside the weights: a context, the system, and the programs that people use at the same time.
  constexpr double kSpare = 1.25, kSpareGigabytes = 2;
  // 10 tokens a second from the memory of a common computer
  constexpr double kMostRead = 3;
  const KnownModel* best = nullptr;
  for (const KnownModel& model : kModels) {
    const bool generates = model.read_gigabytes > 0;
    const bool fits =
        generates && model.gigabytes * kSpare + kSpareGigabytes <= static_cast<double>(memory_bytes) / 1e9;
    if (fits && model.read_gigabytes <= kMostRead && (best == nullptr || model.gigabytes > best->gigabytes))
      best = &model;
  }
  return best;
}

std::string suggested_model(uint64_t weight_bytes, uint64_t memory_bytes) {
  // Chat models of fewer bytes, such as the default one, seldom know the answer to a question.
  constexpr uint64_t kDemonstrationBytes = 500'000'000;
  const KnownModel* const known =
      weight_bytes < kDemonstrationBytes ? recommended_model(memory_bytes) : nullptr;
  return known == nullptr ? std::string() : std::string(known->name);
}

std::string similar_models(std::string_view name, std::vector<std::string> others) {
  constexpr size_t kMost = 3;
  for (const KnownModel& model : kModels) others.emplace_back(model.name);
  std::vector<std::string> similar;
  const std::string begin = letters_and_digits(name);
  for (const std::string& other : others) {
    const bool has_begin = !begin.empty() && letters_and_digits(other).starts_with(begin);
    if (has_begin && similar.size() < kMost) similar.push_back(other);
  }
  if (similar.empty()) {
    if (std::optional<std::string> closest = closest_name(lower_case(name), others))
      similar.push_back(*std::move(closest));
  }
  std::string clause;
  for (size_t i = 0; i < similar.size(); ++i)
    clause += (i == 0 ? "; did you mean " : i + 1 == similar.size() ? " or " : ", ") + similar[i];
  return clause.empty() ? clause : clause + "?";
}

}  // namespace hearth
