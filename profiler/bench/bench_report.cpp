// What the benchmark found, for people and for programs.
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/residency/plan.h"
#include "profiler/bench/bench.h"
#include "profiler/bench/sparsity_text.h"

namespace hearth {
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
            {"gates", bytes.gates},
            {"hot_neurons", bytes.hot},
            {"neuron_cache", bytes.cache},
            {"tables", bytes.tables},
            {"scratch", bytes.scratch},
            {"stream", bytes.stream}}},
          {"cold_neuron_bytes", plan.cold_bytes}};
}

/// What there is to say besides where a device computes too.
std::string device_text(const Plan& plan, const ModelSpec& spec, const BenchResult& r) {
  std::string text = format("         %9.1f GB/s of the GPU's memory, %.1f GB/s of PCIe\n",
                            r.bandwidth.vram / 1e9, r.bandwidth.pcie / 1e9);
  text += format("per token %8.1f MB by the GPU whole, %.1f MB of its neurons, %.1f MB of cold neurons",
                 r.bytes.device_whole / 1e6, r.bytes.device_neurons / 1e6, r.bytes.cold_neurons / 1e6);
  text += r.bytes.host_whole == 0 ? "\n" : format(", %.1f MB by the CPU whole\n", r.bytes.host_whole / 1e6);
  for (const std::string& line : plan.lines(spec)) text += "plan     " + line + "\n";
  return text;
}

/// Since the model was loaded.
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

std::string bench_text(const ModelRuntime& model, const BenchOptions& options, const BenchResult& r) {
  const bool on_device = model.plan() != nullptr;
  std::string text = format(
      "model    %s, %s\n"
      "backend  %s\n"
      "sparsity %s\n"
      "prefill  %9.1f tokens/s  (%d tokens in steps of %d)\n"
      "decode   %9.1f tokens/s  (%d tokens after the prompt)\n"
      "bytes    %9.1f MB per decoded token (dense: %.1f MB of weights), read at %.1f GB/s\n"
      "memory   %9.1f GB/s measured read bandwidth; decode reaches %.0f %% of %s bound\n",
      model.file().path().filename().c_str(), model.spec().name.c_str(), model.backend_description().c_str(),
      sparsity_text(model.sparsity(), r.decode_activity).c_str(), r.prefill_tokens_per_s, options.n_prompt,
      options.chunk, r.decode_tokens_per_s, options.n_generate, r.decode_bytes_per_token / 1e6,
      model.sparsity().dense_bytes_per_token / 1e6, r.achieved_bytes_per_s / 1e9, r.bandwidth.ram / 1e9,
      100 * r.share_of_bound, on_device ? "the bytes'" : "that");
  if (options.counts) {
    text += format("counting %+9.2f %% of a step's time where single neurons are counted\n",
                   100 * r.counting_cost);
  }
  if (on_device) text += device_text(*model.plan(), model.spec(), r);
  if (model.prefetcher() != nullptr) text += prefetch_text(model.prefetcher()->counters());
  return text;
}

std::string bench_json(const ModelRuntime& model, const BenchOptions& options, const BenchResult& r) {
  Json json = {
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
      {"read_bandwidth_bytes_per_s", r.bandwidth.ram},
      {"share_of_bound", r.share_of_bound},
      {"sparsity", sparsity_json(model.sparsity(), r.decode_activity)},
      {"device", model.plan() == nullptr ? "CPU" : "GPU"},
  };
  if (options.counts) json["counting_cost_share"] = r.counting_cost;
  if (model.plan() != nullptr) {
    json["plan"] = plan_json(*model.plan());
    json["bandwidth_bytes_per_s"] = {
        {"ram", r.bandwidth.ram}, {"vram", r.bandwidth.vram}, {"pcie", r.bandwidth.pcie}};
    json["token_bytes"] = {{"device_whole", r.bytes.device_whole},
                           {"device_neurons", r.bytes.device_neurons},
                           {"cold_neurons", r.bytes.cold_neurons},
                           {"host_whole", r.bytes.host_whole}};
  }
  if (model.prefetcher() != nullptr) json["prefetch"] = prefetch_json(model.prefetcher()->counters());
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace hearth
