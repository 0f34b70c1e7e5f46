// Chooses the number of prompt tokens per step if no option sets it (--prefill-chunk auto).
//
// On the CPU, a step of 128 tokens reads prompts about as fast as a longer one, and running streams wait
// less. A GPU needs more, for two reasons:
//
//   - It is fully used only with enough thread blocks. A matrix of 4,096 rows times n tokens is 32 * n / 64
//     tiles (kernels/cuda/matmul/matmul_prompts.cu), and 256 of them keep large GPUs busy: n = 512.
//   - Weights that it does not hold are copied to it in every step. A step multiplies for at least as long as
//     it copies if it has
//       n = s * b * M / B   tokens
//     where s is the copied share of the weights, b the bytes per weight, M the multiply-adds per second and
//     B the bytes per second over PCIe.
//
// So a step has the larger of the two, but at most 1,024 tokens, and no more than a context has. Its scratch
// may take a sixteenth of the GPU's budget, because scratch displaces neurons; the size is halved until that
// holds or 128 is reached.
//
// In a mixture, a token multiplies with few of the experts' weights, while a step copies nearly all of those
// that the GPU does not hold: 340 MB a layer for 128 experts of 2.6 MB, 14 ms on PCIe 4. So a step has 2,048
// tokens, within the same limits.
//
// Running streams wait for steps that also have prompt tokens. Copying takes the same time for few tokens as
// for many, so beside streams a step may have the n tokens of the formula; if little or nothing is copied,
// 128.
//
// Called while a model is loaded, and in plans for models that are not loaded. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/kv_layout.h"

namespace hearth {

struct ModelSpec;
struct Weights;

/// Prompt tokens of a step on the CPU.
inline constexpr int kCpuPrefillChunk = 128;
/// Lower bound on a GPU, where scratch and context allow it, and upper bound.
inline constexpr int kGpuPrefillChunk = 512, kMostPrefillChunk = 1024;
/// On a GPU that gets a mixture's missing experts in every step.
inline constexpr int kMixturePrefillChunk = 2048;

struct PromptStep {
  int tokens = kCpuPrefillChunk;          // most prompt tokens in a step
  int beside_streams = kCpuPrefillChunk;  // most prompt tokens in a step with decoding sequences
};

/// A machine's prompt-processing rates. 0: unknown, and a typical figure is used.
struct PromptRates {
  double to_device_bytes_per_s = 0;
  double multiply_adds_per_s = 0;      // of the GPU
  double cpu_multiply_adds_per_s = 0;  // of the CPU, all threads
};

struct PromptStepFacts {
  const ModelSpec& spec;
  const Weights& weights;
  int context_tokens = 0, n_slots = 1;
  int n_kv_contexts = 0;  // see LoadOptions
  KvType kv_type = KvType::kF16;
  std::optional<uint64_t> device_budget_bytes;  // nullopt: the CPU computes everything
  PromptRates rates;
};

PromptStep prompt_step(const PromptStepFacts& facts);

/// The smallest step, in tokens, for which FFN weights in host memory are copied to the GPU instead of being
/// multiplied by the CPU: cuda::crossover_tokens() for these weights. Results have the same bits either way.
int streamed_from(const Weights& weights, const PromptRates& rates);

}  // namespace hearth
