// Chooses the number of prompt tokens per step for --prefill-chunk auto.
//
// On the CPU, steps of 128 prompt tokens take about as much time per token as longer steps, and decoding
// sequences wait less for the end of the step. A GPU needs more tokens, for two reasons:
//
//   - A GPU is busy only with enough thread blocks. A product of 4,096 rows and n tokens has 32 * n / 64
//     tiles (kernels/cuda/matmul/matmul_prompts.cu). Large GPUs need 256 tiles, so n = 512.
//   - Every step copies to the GPU the weights that the GPU does not hold. Multiplying takes at least as long
//     as copying if the step has
//       n = s * b * M / B   tokens
//     where s is the share of the weights that is copied, b the bytes per weight, M the multiply-adds per
//     second and B the bytes per second over PCIe.
//
// So the number of tokens in a step is the larger of these two values of n, but at most 1,024 and at most the
// context. Scratch may take only a sixteenth of the GPU's budget, because scratch displaces neurons. If
// scratch would take more, the number of tokens is halved until the scratch fits or 128 tokens are reached.
//
// In a mixture of experts, a token multiplies with the weights of few experts, but a step copies nearly all
// experts that the GPU does not hold. For 128 experts of 2.6 MB, that is 340 MB a layer, or 14 ms on PCIe 4.
// So a step has 2,048 tokens, subject to the same limits of context and scratch.
//
// Decoding sequences must wait for the end of a step that also has prompt tokens. Copying weights takes as
// long for few tokens as for many, so such a step has at most n tokens by the formula. If this n is below
// 128, the limit is 128. In a mixture, the limit is always 128.
//
// Called while a model is loaded, and in plans for models that are not loaded. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/kv_layout.h"

namespace hearth {

struct ModelSpec;
struct NextnWeights;
struct Weights;

/// Prompt tokens of a step on the CPU.
inline constexpr int kCpuPrefillChunk = 128;
/// The minimum and maximum number of prompt tokens in a step on a GPU. Scratch and context may lower both.
inline constexpr int kGpuPrefillChunk = 512, kMostPrefillChunk = 1024;
/// Prompt tokens of a step in a mixture of experts, if each step copies the experts that the GPU does not
/// hold.
inline constexpr int kMixturePrefillChunk = 2048;

struct PromptStep {
  int tokens = kCpuPrefillChunk;          // maximum number of prompt tokens in a step
  int beside_streams = kCpuPrefillChunk;  // maximum number of prompt tokens in a step with decoding sequences
};

/// A machine's rates of processing prompts. 0 means unknown; then a typical rate is used.
struct PromptRates {
  double to_device_bytes_per_s = 0;
  double multiply_adds_per_s = 0;      // rate of the GPU
  double cpu_multiply_adds_per_s = 0;  // rate of the CPU with all threads
};

struct PromptStepFacts {
  const ModelSpec& spec;
  const Weights& weights;
  int context_tokens = 0, n_slots = 1;
  int n_kv_contexts = 0;  // see LoadOptions
  KvType kv_type = KvType::kF16;
  std::optional<uint64_t> device_budget_bytes;  // nullopt: the CPU computes everything
  PromptRates rates;
  const NextnWeights* nextn = nullptr;  // the layers that draft; null: none
};

PromptStep prompt_step(const PromptStepFacts& facts);

/// Returns the minimum number of tokens in a step for which the GPU streams FFN weights from host memory. In
/// smaller steps, the CPU multiplies by these weights. The results have the same bits in both cases. Computed
/// by cuda::crossover_tokens().
int streamed_from(const Weights& weights, const PromptRates& rates);

}  // namespace hearth
