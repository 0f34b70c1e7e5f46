// Speed of a model on this machine: prefill and decode, beside the bound that memory sets.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "engine/model_runtime.h"
#include "engine/residency/sparsity.h"
#include "kernels/cuda/runtime/bandwidth.h"
#include "profiler/bench/byte_bound.h"

namespace hearth {

/// What the FFN did, as one line for people: "exact (lossless with relu), 18.1 % of neurons active".
/// `activity` is what was counted while measuring.
std::string sparsity_text(const SparsityReport& report, const NeuronActivity& activity);

struct BenchOptions {
  int n_threads = 1;
  int n_prompt = 512;                       // tokens of prefill
  int n_generate = 128;                     // tokens of decode, after the prompt
  int chunk = 128;                          // prompt tokens per step, as the server takes them
  int n_repeats = 3;                        // the median is reported
  bool cpu_share = true;                    // as in LoadOptions
  bool counts = false;                      // single neurons are counted in half of the decode steps
  std::optional<cuda::Bandwidth> gpu = {};  // measured before loading; nullopt: there is none
};

struct BenchResult {
  double prefill_tokens_per_s = 0;
  double decode_tokens_per_s = 0;
  NeuronActivity decode_activity;  // n_tokens 0 in dense mode
  TokenBytes bytes;  // of a decoded token: weights, and keys and values at the middle of the generation
  double decode_bytes_per_token = 0;  // their sum
  double achieved_bytes_per_s = 0;    // decode_tokens_per_s * decode_bytes_per_token
  MachineBandwidth bandwidth;         // RAM's measured after each repeat, with as many threads
  double counting_cost = -1;          // by what share counting makes a step longer; negative: not measured
  double share_of_bound = 0;  // of the byte bound (byte_bound.h) at the RAM's bandwidth of the same repeat
};

/// Runs prefill and decode n_repeats times. REQUIRES: n_prompt + n_generate within the model's KV memory,
/// both >= 1, as all options. progress (may be empty): called between steps with the share of them done, in
/// [0, 1].
BenchResult run_bench(ModelRuntime& model, const BenchOptions& options,
                      const std::function<void(double fraction)>& progress = {});

std::string bench_text(const ModelRuntime& model, const BenchOptions& options, const BenchResult& result);
std::string bench_json(const ModelRuntime& model, const BenchOptions& options, const BenchResult& result);

}  // namespace hearth
