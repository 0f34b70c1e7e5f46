// The benchmark: repeated prefill and greedy decode of one sequence.
#include "profiler/bench/bench.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

#include "engine/residency/plan.h"
#include "profiler/activity/sequence_run.h"
#include "profiler/machine/read_bandwidth.h"

namespace hearth {
namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Adds the keys and values that attention reads for one token at this position.
void add_kv_bytes(const ModelRuntime& model, int position, TokenBytes& bytes) {
  const ModelSpec& spec = model.spec();
  const double layer = 2.0 * sizeof(uint16_t) * spec.kv_dim() * (position + 1);
  const int n_device = model.plan() == nullptr ? 0 : model.plan()->n_device_layers();
  bytes.device_whole += layer * n_device;
  bytes.host_whole += layer * (spec.n_layers - n_device);
}

}  // namespace

BenchResult run_bench(ModelRuntime& model, const BenchOptions& options,
                      const std::function<void(double fraction)>& progress) {
  const int n_vocab = model.spec().n_vocab;
  std::vector<int32_t> prompt;
  // Any ids do: the work does not depend on them. A stride that is coprime to most vocabularies spreads the
  // rows.
  for (int i = 0; i < options.n_prompt; ++i)
    prompt.push_back(static_cast<int32_t>((i * 7919LL + 13) % n_vocab));

  SequenceRun run(model);
  run.feed(std::span(prompt).first(1), 1);  // touches every weight once, so that page faults are not measured
  std::vector<double> prefill, decode, bandwidth;
  std::array<std::vector<double>, 2> step_seconds;  // not counted, counted
  if (options.counts) model.count_activity();
  const ReadBandwidth memory(options.n_threads);
  const double prompt_steps = static_cast<double>((options.n_prompt + options.chunk - 1) / options.chunk);
  const double steps = options.n_repeats * (prompt_steps + options.n_generate);
  double steps_done = 0;
  const auto done = [&](double more) {
    steps_done += more;
    if (progress) progress(steps_done / steps);
  };
  for (int repeat = 0; repeat < options.n_repeats; ++repeat) {
    run.clear();
    if (options.counts) model.pause_activity(true);
    auto begin = std::chrono::steady_clock::now();
    std::span<const float> logits = run.feed(prompt, options.chunk);
    prefill.push_back(options.n_prompt / seconds_since(begin));
    done(prompt_steps);
    model.reset_activity();
    begin = std::chrono::steady_clock::now();
    for (int i = 0; i < options.n_generate; ++i) {
      const auto token =
          static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
      // Two and two in turn: what else the machine does meets both alike.
      const bool counts = i / 2 % 2 == 1;
      if (options.counts) model.pause_activity(!counts);
      const auto step_begin = std::chrono::steady_clock::now();
      logits = run.feed(std::span(&token, 1), 1);
      step_seconds[counts ? 1 : 0].push_back(seconds_since(step_begin));
      done(1);
    }
    decode.push_back(options.n_generate / seconds_since(begin));
    bandwidth.push_back(memory.measure());
  }

  BenchResult result;
  if (options.counts && !step_seconds[1].empty()) {
    result.counting_cost = median(step_seconds[1]) / median(step_seconds[0]) - 1;
  }
  result.prefill_tokens_per_s = median(prefill);
  result.decode_tokens_per_s = median(decode);
  // Every repeat decodes the same tokens, so the last one's activity is that of all.
  result.decode_activity = model.activity();
  if (model.plan() != nullptr && !options.cpu_share) result.decode_activity.cold = -1;  // the CPU has none
  result.bytes = model.token_bytes(result.decode_activity);
  add_kv_bytes(model, options.n_prompt + options.n_generate / 2, result.bytes);
  result.decode_bytes_per_token = result.bytes.sum();
  result.achieved_bytes_per_s = result.decode_tokens_per_s * result.decode_bytes_per_token;
  result.bandwidth = {.ram = median(bandwidth)};
  if (options.gpu) {
    result.bandwidth.vram = options.gpu->vram_bytes_per_s;
    result.bandwidth.pcie = options.gpu->to_device_bytes_per_s;
  }
  std::vector<double> share;
  for (size_t i = 0; i < decode.size(); ++i) {
    MachineBandwidth then = result.bandwidth;
    then.ram = bandwidth[i];
    share.push_back(decode[i] * least_seconds(result.bytes, then, options.cpu_share));
  }
  result.share_of_bound = median(share);
  return result;
}

}  // namespace hearth
