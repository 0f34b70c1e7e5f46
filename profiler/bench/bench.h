// Measures a model's prefill and decode speed on this machine, and compares it with the bound that memory
// bandwidth sets.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/model_runtime.h"
#include "engine/neurons/sparsity.h"
#include "kernels/cuda/bench/speed.h"
#include "profiler/bench/byte_bound.h"
#include "profiler/plan/expected_run.h"

namespace hearth {

/// Describes the FFN's work in one line for people: "exact (lossless with relu), 18.1 % of neurons active".
/// `activity` was counted during the measurement.
std::string sparsity_text(const SparsityReport& report, const NeuronActivity& activity);

struct BenchOptions {
  int n_threads = 1;
  int n_prompt = 512;     // tokens of prefill
  int n_generate = 128;   // tokens of decode, after the prompt
  int chunk = 128;        // prompt tokens per step, as in the server
  int n_repeats = 3;      // the median is reported
  bool cpu_share = true;  // see LoadOptions::cpu_share
  bool counts = false;    // count single neurons in half of the decode steps, to measure what counting costs
  std::optional<cuda::Bandwidth> gpu = {};  // measured before loading; nullopt: no GPU
};

struct BenchResult {
  double prefill_tokens_per_s = 0;
  double decode_tokens_per_s = 0;
  NeuronActivity decode_activity;  // n_tokens 0 in dense mode
  /// Bytes read for one decoded token in the middle of the generated text: weights, keys and values.
  TokenBytes bytes;
  double decode_bytes_per_token = 0;  // the sum of `bytes`
  double achieved_bytes_per_s = 0;    // decode_tokens_per_s * decode_bytes_per_token
  /// The RAM's bandwidth was measured after each repeat, with BenchOptions.n_threads threads, by wall-clock
  /// time.
  MachineBandwidth bandwidth;
  /// The RAM's bandwidth by processor time: its value if no other program ran.
  double quiet_ram_bytes_per_s = 0;
  double counting_cost = -1;  // share by which counting lengthens a step; negative: not measured
  /// The decode speed, divided by the speed that the byte bound allows (byte_bound.h). The bound of each
  /// repeat uses the RAM bandwidth that was measured directly after this repeat.
  double share_of_bound = 0;
};

/// Runs prefill and decode n_repeats times, after unmeasured steps of the same shapes. Calls `progress` (may
/// be empty) before the first measured step and between steps with the completed share of the steps, in [0,
/// 1]. REQUIRES: n_prompt + n_generate within the model's KV memory; all numbers of the options >= 1.
BenchResult run_bench(ModelRuntime& model, const BenchOptions& options,
                      const std::function<void(double fraction)>& progress = {});

/// Returns the median; for an even number of values, the larger of the two middle values. REQUIRES: values is
/// not empty.
double upper_median(std::vector<double> values);

/// Formats the result for people, or as one JSON object. expected: the prediction for this run; nullopt if
/// this machine was never probed.
std::string bench_text(const ModelRuntime& model, const BenchOptions& options, const BenchResult& result,
                       const std::optional<ExpectedRun>& expected = {});
std::string bench_json(const ModelRuntime& model, const BenchOptions& options, const BenchResult& result,
                       const std::optional<ExpectedRun>& expected = {});

}  // namespace hearth
