// How many prompt tokens a step has, where nobody says it (--prefill-chunk auto).
//
// On the CPU a step of 128 tokens reads prompts about as fast as a longer one, and running streams wait less. A GPU wants
// more, for two reasons:
//
//   - It is full only if there are enough thread blocks. A matrix of 4,096 rows times n tokens is 32 * n / 64 tiles
//     (kernels/cuda/matmul/matmul_prompts.cu), and 256 of them keep large GPUs busy: n = 512.
//   - Weights that it does not hold are copied to it in every step. A step that multiplies for as long as it copies, or
//     longer, has
//       n = s * b * M / B   tokens
//     where s is the share of the weights that is copied, b the bytes of a weight, M the multiply-adds a second and B the
//     bytes a second over PCIe.
//
// So a step has the larger of the two, but at most 1,024 tokens, and no more than what a context has. Its scratch takes at
// most a sixteenth of the GPU's budget, for what scratch takes, neurons do not get; the size is halved until that holds,
// or 128 is reached.
//
// Running streams wait for a step that has prompt tokens besides. Copying takes the same time for few tokens as for many,
// so beside streams a step may have the n tokens of the formula; but where little or nothing is copied, 128.
//
// Called while a model is loaded, and in plans for models that are not. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/kv_layout.h"

namespace hearth {

struct ModelSpec;
struct Weights;

/// Prompt tokens of a step on the CPU.
inline constexpr int kCpuPrefillChunk = 128;
/// The same on a GPU, at least, where scratch and context allow it; and at most.
inline constexpr int kGpuPrefillChunk = 512, kMostPrefillChunk = 1024;

struct PromptStep {
  int tokens = kCpuPrefillChunk;          // of a step, at most
  int beside_streams = kCpuPrefillChunk;  // of a step in which sequences decode, at most
};

/// A machine's rates in prompts. 0: the rate is not known, and a typical figure is taken.
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

/// The fewest tokens of a step for which the weights of FFNs that lie in host memory are copied to the GPU, instead of being
/// multiplied by the CPU: cuda::crossover_tokens() for these weights. Results have the same bits either way.
int streamed_from(const Weights& weights, const PromptRates& rates);

}  // namespace hearth
