// The benchmark: repeated prefill and greedy decode of one sequence.
#include "profiler/bench.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "profiler/read_bandwidth.h"
#include "profiler/sequence_run.h"
#include "profiler/sparsity_text.h"

namespace hearth {
namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Keys and values that attention reads for one token at this position, over all layers.
double kv_bytes_at(const ModelSpec& spec, int position) {
  return 2.0 * sizeof(uint16_t) * spec.kv_dim() * spec.n_layers * (position + 1);
}

std::string format(const char* pattern, auto... values) {
  const int length = std::snprintf(nullptr, 0, pattern, values...);
  std::string text(static_cast<size_t>(length) + 1, '\0');
  std::snprintf(text.data(), text.size(), pattern, values...);
  text.pop_back();
  return text;
}

nlohmann::ordered_json sparsity_json(const SparsityReport& report, const NeuronActivity& activity) {
  nlohmann::ordered_json json = {{"mode", sparsity_name(report.mode)},
                                 {"reason", report.reason},
                                 {"dense_bytes_per_token", report.dense_bytes_per_token}};
  if (activity.n_tokens > 0) json["active_share"] = activity.active;
  if (report.mode == Sparsity::kPredicted) {
    json["proposed_share"] = activity.proposed;
    json["predictor_threshold"] = report.predictor_threshold;
  }
  if (activity.recall >= 0) {
    json["recall"] = activity.recall;
    json["false_positive_share"] = activity.false_positives;
  }
  return json;
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
    auto begin = std::chrono::steady_clock::now();
    std::span<const float> logits = run.feed(prompt, options.chunk);
    prefill.push_back(options.n_prompt / seconds_since(begin));
    done(prompt_steps);
    model.reset_activity();
    begin = std::chrono::steady_clock::now();
    for (int i = 0; i < options.n_generate; ++i) {
      const auto token =
          static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
      logits = run.feed(std::span(&token, 1), 1);
      done(1);
    }
    decode.push_back(options.n_generate / seconds_since(begin));
    bandwidth.push_back(memory.measure());
  }

  BenchResult result;
  result.prefill_tokens_per_s = median(prefill);
  result.decode_tokens_per_s = median(decode);
  // Every repeat decodes the same tokens, so the last one's activity is that of all.
  result.decode_activity = model.activity();
  result.decode_bytes_per_token = model.bytes_per_token(result.decode_activity) +
                                  kv_bytes_at(model.spec(), options.n_prompt + options.n_generate / 2);
  result.achieved_bytes_per_s = result.decode_tokens_per_s * result.decode_bytes_per_token;
  result.read_bandwidth_bytes_per_s = median(bandwidth);
  std::vector<double> share;
  for (size_t i = 0; i < decode.size(); ++i) {
    share.push_back(decode[i] * result.decode_bytes_per_token / bandwidth[i]);
  }
  result.share_of_bound = median(share);
  return result;
}

std::string bench_text(const ModelRuntime& model, const BenchOptions& options, const BenchResult& r) {
  return format(
      "model    %s, %s\n"
      "backend  %s\n"
      "sparsity %s\n"
      "prefill  %9.1f tokens/s  (%d tokens in steps of %d)\n"
      "decode   %9.1f tokens/s  (%d tokens after the prompt)\n"
      "bytes    %9.1f MB per decoded token (dense: %.1f MB of weights), read at %.1f GB/s\n"
      "memory   %9.1f GB/s measured read bandwidth; decode reaches %.0f %% of that bound\n",
      model.file().path().filename().c_str(), model.spec().name.c_str(), model.backend_description().c_str(),
      sparsity_text(model.sparsity(), r.decode_activity).c_str(), r.prefill_tokens_per_s, options.n_prompt,
      options.chunk, r.decode_tokens_per_s, options.n_generate, r.decode_bytes_per_token / 1e6,
      model.sparsity().dense_bytes_per_token / 1e6, r.achieved_bytes_per_s / 1e9,
      r.read_bandwidth_bytes_per_s / 1e9, 100 * r.share_of_bound);
}

std::string bench_json(const ModelRuntime& model, const BenchOptions& options, const BenchResult& r) {
  const nlohmann::ordered_json json = {
      {"model", model.file().path().filename().string()},
      {"backend", model.backend_description()},
      {"threads", options.n_threads},
      {"prompt", options.n_prompt},
      {"generate", options.n_generate},
      {"chunk", options.chunk},
      {"prefill_tokens_per_s", r.prefill_tokens_per_s},
      {"decode_tokens_per_s", r.decode_tokens_per_s},
      {"decode_bytes_per_token", r.decode_bytes_per_token},
      {"achieved_bytes_per_s", r.achieved_bytes_per_s},
      {"read_bandwidth_bytes_per_s", r.read_bandwidth_bytes_per_s},
      {"share_of_bound", r.share_of_bound},
      {"sparsity", sparsity_json(model.sparsity(), r.decode_activity)},
  };
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace hearth
