// Runs the bench and reports the result.
#include "profiler/bench/bench.h"

#include <spdlog/fmt/fmt.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "engine/residency/plan.h"
#include "kernels/compute_device.h"
#include "profiler/activity/sequence_run.h"
#include "profiler/machine/busy_machine.h"
#include "profiler/machine/read_bandwidth.h"

namespace hearth {

std::string sparsity_text(const SparsityReport& report, const NeuronActivity& activity) {
  std::string text = fmt::format("{} ({})", sparsity_name(report.mode), report.reason);
  if (activity.experts_read >= 0) {
    text += fmt::format(", {:.2f} experts read per token and layer", activity.experts_read);
  }
  if (activity.n_tokens == 0) return text;
  text += fmt::format(", {:.1f} % of neurons active", 100 * activity.active);
  if (report.mode == Sparsity::kPredicted) {
    text += fmt::format(", {:.1f} % proposed at threshold {}", 100 * activity.proposed,
                        report.predictor_threshold);
  }
  if (activity.recall >= 0) {
    text += fmt::format(", recall {:.2f} %, {:.1f} % of the proposed for nothing", 100 * activity.recall,
                        100 * activity.false_positives);
  }
  return text;
}

namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Adds to `bytes` the keys and values that attention reads for one token at this position, and the recurrent
/// states that a token reads and writes.
void add_sequence_bytes(const ModelRuntime& model, int position, TokenBytes& bytes) {
  const ModelSpec& spec = model.facts().spec;
  const Plan* const plan = model.placed().plan;
  for (int i = 0; i < spec.n_layers; ++i) {
    const int window = spec.layer(i).window;
    const int n_seen = window > 0 ? std::min(position + 1, window) : position + 1;
    const bool on_device = plan != nullptr && plan->layers[static_cast<size_t>(i)].on_device;
    const double states =
        spec.layer(i).recurrent ? 2.0 * static_cast<double>(spec.recurrent.state_bytes()) : 0.0;
    (on_device ? bytes.device_whole : bytes.host_whole) +=
        kv_position_bytes(spec, i, model.placed().kv_type) * n_seen + states;
  }
}

// The number of warm-up steps. The first decode step of a shape allocates memory, and the second step is
// recorded as a graph (kernels/cuda/runtime/step_recorder.h). From the third step on, all steps of the shape
// take the same time.
constexpr int kWarmSteps = 3;

/// Runs steps of every shape that will be measured: a full chunk, and the shorter chunk at the end of the
/// prompt. Never runs more prompt tokens than the measured prompt has.
void warm_up(ModelRuntime& model, SequenceRun& run, std::span<const int32_t> prompt,
             const BenchOptions& options) {
  const int rest = options.n_prompt > options.chunk ? options.n_prompt % options.chunk : options.n_prompt;
  const int n_warm = options.n_prompt > options.chunk ? options.chunk + rest : rest;
  if (options.counts) model.observation().pause_activity(true);
  run.feed(prompt.first(static_cast<size_t>(n_warm)), options.chunk);
  const int n_keys = options.n_prompt + options.n_generate;
  for (int longest = longest_class(options.n_prompt + 1); longest <= longest_class(n_keys); longest *= 2) {
    for (const bool counted : {false, true}) {
      if (counted && !options.counts) continue;
      if (options.counts) model.observation().pause_activity(!counted);
      for (int i = 0; i < kWarmSteps; ++i) {
        run.skip_to(std::min(longest, n_keys) - 1);
        run.feed(prompt.first(1), 1);
      }
    }
  }
}

}  // namespace

double upper_median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

BenchResult run_bench(ModelRuntime& model, const BenchOptions& options,
                      const std::function<void(double fraction)>& progress) {
  const int n_vocab = model.facts().spec.n_vocab;
  std::vector<int32_t> prompt;
  // Any token ids will do, because the work does not depend on them. A stride that is coprime to most
  // vocabulary sizes spreads the rows of the embedding matrix that are read.
  for (int i = 0; i < options.n_prompt; ++i)
    prompt.push_back(static_cast<int32_t>((i * 7919LL + 13) % n_vocab));

  SequenceRun run(model);
  if (options.counts) model.observation().count_activity();
  warm_up(model, run, prompt, options);
  if (progress) progress(0);
  std::vector<double> prefill, decode, bandwidth, quiet_bandwidth;
  std::array<std::vector<double>, 2> step_seconds;  // [0]: steps without counting; [1]: with counting
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
    if (options.counts) model.observation().pause_activity(true);
    auto begin = std::chrono::steady_clock::now();
    std::span<const float> logits = run.feed(prompt, options.chunk);
    prefill.push_back(options.n_prompt / seconds_since(begin));
    done(prompt_steps);
    model.observation().reset_activity();
    begin = std::chrono::steady_clock::now();
    for (int i = 0; i < options.n_generate; ++i) {
      const auto token =
          static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
      // Decode two steps without counting, two steps with counting, and so on, so that other programs slow
      // both kinds of steps equally.
      const bool counts = i / 2 % 2 == 1;
      if (options.counts) model.observation().pause_activity(!counts);
      const auto step_begin = std::chrono::steady_clock::now();
      logits = run.feed(std::span(&token, 1), 1);
      step_seconds[counts ? 1 : 0].push_back(seconds_since(step_begin));
      done(1);
    }
    decode.push_back(options.n_generate / seconds_since(begin));
    const ReadSpeed speed = memory.measure();
    bandwidth.push_back(speed.now.median);
    quiet_bandwidth.push_back(speed.quiet.median);
  }

  BenchResult result;
  if (options.counts && !step_seconds[1].empty()) {
    result.counting_cost = upper_median(step_seconds[1]) / upper_median(step_seconds[0]) - 1;
  }
  result.prefill_tokens_per_s = upper_median(prefill);
  result.decode_tokens_per_s = upper_median(decode);
  // Every repeat decodes the same tokens, so all repeats have the activity of the last one.
  result.decode_activity = model.observation().activity();
  if (model.placed().plan != nullptr && !options.cpu_share)
    result.decode_activity.cold = -1;  // the CPU has no cold neurons
  result.bytes = model.token_bytes(result.decode_activity);
  add_sequence_bytes(model, options.n_prompt + options.n_generate / 2, result.bytes);
  result.decode_bytes_per_token = result.bytes.sum();
  result.achieved_bytes_per_s = result.decode_tokens_per_s * result.decode_bytes_per_token;
  result.bandwidth = {.ram = upper_median(bandwidth)};
  result.quiet_ram_bytes_per_s = upper_median(quiet_bandwidth);
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
  result.share_of_bound = upper_median(share);
  return result;
}

namespace {

using Json = nlohmann::ordered_json;

std::string format(const char* pattern, auto... values) {
  const int length = std::snprintf(nullptr, 0, pattern, values...);
  std::string text(static_cast<size_t>(length) + 1, '\0');
  std::snprintf(text.data(), text.size(), pattern, values...);
  text.pop_back();
  return text;
}

Json sparsity_json(const SparsityReport& report, const NeuronActivity& activity) {
  Json json = {{"mode", sparsity_name(report.mode)},
               {"reason", report.reason},
               {"dense_bytes_per_token", report.dense_bytes_per_token}};
  if (activity.n_tokens > 0) json["active_share"] = activity.active;
  if (activity.experts_read >= 0) json["experts_read_per_token_layer"] = activity.experts_read;
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

Json plan_json(const Plan& plan) {
  const DeviceBytes& bytes = plan.device;
  return {{"budget_bytes", plan.budget_bytes},
          {"device_layers", plan.n_device_layers()},
          {"device_bytes",
           {{"total", bytes.total()},
            {"attention", bytes.attention},
            {"output", bytes.output},
            {"predictors", bytes.predictors},
            {"kv", bytes.kv},
            {"states", bytes.states},
            {"gates", bytes.gates},
            {"hot_neurons", bytes.hot},
            {"experts", bytes.experts},
            {"neuron_cache", bytes.cache},
            {"drafts", bytes.drafts},
            {"tables", bytes.tables},
            {"scratch", bytes.scratch},
            {"stream", bytes.stream}}},
          {"cold_neuron_bytes", plan.cold_bytes}};
}

/// Returns the report lines that are added if a device takes part in the computation.
std::string device_text(const Plan& plan, const ModelSpec& spec, const BenchResult& r) {
  std::string text = format("         %9.1f GB/s of the GPU's memory, %.1f GB/s of PCIe\n",
                            r.bandwidth.vram / 1e9, r.bandwidth.pcie / 1e9);
  text += format("per token %8.1f MB by the GPU whole, %.1f MB of its neurons, %.1f MB of cold neurons",
                 r.bytes.device_whole / 1e6, r.bytes.device_neurons / 1e6, r.bytes.cold_neurons / 1e6);
  text += r.bytes.host_whole == 0 ? "\n" : format(", %.1f MB by the CPU whole\n", r.bytes.host_whole / 1e6);
  for (const std::string& line : plan.lines(spec)) text += "plan     " + line + "\n";
  return text;
}

/// Returns the prefetch counters since the model was loaded, as JSON.
Json prefetch_json(const PrefetchCounters& counters) {
  Json json = {{"moved", counters.moved},
               {"used", counters.used},
               {"late", counters.late},
               {"evicted", counters.evicted},
               {"evicted_unused", counters.evicted_unused},
               {"bytes", counters.bytes},
               {"copy_seconds", counters.copy_seconds},
               {"hidden_seconds", counters.hidden_seconds}};
  if (counters.copy_seconds > 0) json["hidden_share"] = counters.hidden_seconds / counters.copy_seconds;
  return json;
}

std::string prefetch_text(const PrefetchCounters& counters) {
  const double hidden = counters.copy_seconds > 0 ? counters.hidden_seconds / counters.copy_seconds : 0;
  return format(
      "prefetch %lld neurons moved (%.1f MB), %lld used, %lld late, %lld evicted; %.0f %% of the copies' "
      "time hidden\n",
      static_cast<long long>(counters.moved), static_cast<double>(counters.bytes) / 1e6,
      static_cast<long long>(counters.used), static_cast<long long>(counters.late),
      static_cast<long long>(counters.evicted), 100 * hidden);
}

}  // namespace

std::string bench_text(const ModelRuntime& model, const BenchOptions& options, const BenchResult& r,
                       const std::optional<ExpectedRun>& expected) {
  const bool on_device = model.placed().plan != nullptr;
  std::string text = format(
      "model    %s, %s\n"
      "backend  %s\n"
      "sparsity %s\n"
      "prefill  %9.1f tokens/s  (%d tokens in steps of %d)\n"
      "decode   %9.1f tokens/s  (%d tokens after the prompt)\n"
      "bytes    %9.1f MB per decoded token (dense: %.1f MB of weights), read at %.1f GB/s\n"
      "memory   %9.1f GB/s measured read bandwidth; decode reaches %.0f %% of %s bound\n",
      model.facts().file.path().filename().c_str(), model.facts().spec.name.c_str(),
      model.placed().backend.c_str(), sparsity_text(model.placed().sparsity, r.decode_activity).c_str(),
      r.prefill_tokens_per_s, options.n_prompt, options.chunk, r.decode_tokens_per_s, options.n_generate,
      r.decode_bytes_per_token / 1e6, model.placed().sparsity.dense_bytes_per_token / 1e6,
      r.achieved_bytes_per_s / 1e9, r.bandwidth.ram / 1e9, 100 * r.share_of_bound,
      on_device ? "the bytes'" : "that");
  if (expected) {
    text += format("planned  %9.1f tokens/s of decode, %.1f of prefill, if no other program ran\n",
                   expected->decode, expected->prefill);
  }
  const std::string busy =
      busy_measurement(r.bandwidth.ram / r.quiet_ram_bytes_per_s, r.quiet_ram_bytes_per_s);
  if (!busy.empty()) text += "busy     " + busy + "\n";
  if (options.counts) {
    text += format("counting %+9.2f %% of a step's time where single neurons are counted\n",
                   100 * r.counting_cost);
  }
  if (on_device) text += device_text(*model.placed().plan, model.facts().spec, r);
  if (model.placed().prefetcher != nullptr) text += prefetch_text(model.placed().prefetcher->counters());
  return text;
}

std::string bench_json(const ModelRuntime& model, const BenchOptions& options, const BenchResult& r,
                       const std::optional<ExpectedRun>& expected) {
  Json json = {
      {"model", model.facts().file.path().filename().string()},
      {"backend", model.placed().backend},
      {"threads", options.n_threads},
      {"prompt", options.n_prompt},
      {"generate", options.n_generate},
      {"chunk", options.chunk},
      {"kv_type", kv_type_name(model.placed().kv_type)},
      {"prefill_tokens_per_s", r.prefill_tokens_per_s},
      {"decode_tokens_per_s", r.decode_tokens_per_s},
      {"decode_bytes_per_token", r.decode_bytes_per_token},
      {"achieved_bytes_per_s", r.achieved_bytes_per_s},
      {"read_bandwidth_bytes_per_s", r.bandwidth.ram},
      {"quiet_read_bandwidth_bytes_per_s", r.quiet_ram_bytes_per_s},
      {"share_of_bound", r.share_of_bound},
      {"sparsity", sparsity_json(model.placed().sparsity, r.decode_activity)},
      {"device", model.placed().plan == nullptr ? "CPU" : "GPU"},
  };
  if (expected) {
    json["planned_prefill_tokens_per_s"] = expected->prefill;
    json["planned_decode_tokens_per_s"] = expected->decode;
  }
  if (options.counts) json["counting_cost_share"] = r.counting_cost;
  if (model.placed().plan != nullptr) {
    json["plan"] = plan_json(*model.placed().plan);
    json["bandwidth_bytes_per_s"] = {
        {"ram", r.bandwidth.ram}, {"vram", r.bandwidth.vram}, {"pcie", r.bandwidth.pcie}};
    json["token_bytes"] = {{"device_whole", r.bytes.device_whole},
                           {"device_neurons", r.bytes.device_neurons},
                           {"cold_neurons", r.bytes.cold_neurons},
                           {"host_whole", r.bytes.host_whole}};
  }
  if (model.placed().prefetcher != nullptr)
    json["prefetch"] = prefetch_json(model.placed().prefetcher->counters());
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace hearth
