// metrics_text(), at the end, lists all groups of metrics in order.
#include "server/metrics/metrics_text.h"

#include <prometheus/text_serializer.h>

#include <string_view>

#include "server/metrics/metric_families.h"

namespace hearth {
namespace {

constexpr std::string_view kReasons[kFinishReasons] = {"stop",          "length",    "cancelled", "failed",
                                                       "unsatisfiable", "timed_out", "repeated"};

void add_server(MetricFamilies& to, const MetricsInput& in) {
  to.gauge("hearth_build_info", "1; the labels say which hearthd this is and what computes the model.")
      .value(1, {{"version", in.version}, {"backend", in.backend}});
  to.gauge("hearth_up", "1 if requests are served, as /health says.").value(in.healthy ? 1 : 0);
  to.gauge("hearth_load_progress", "How much of the model is loaded, from 0 to 1.")
      .value(in.phase == ServerState::Phase::kLoading ? in.load_progress : 1);
  if (in.models.empty()) return;
  to.gauge("hearth_model_loaded", "1 if the model is loaded. Only with several models.");
  for (const auto& [name, is_loaded] : in.models)
    to.value(is_loaded ? 1 : 0, {{"gen_ai_response_model", name}});
}

void add_requests(MetricFamilies& to, const RequestCounts::Totals& totals) {
  to.counter("hearth_http_requests_total", "Answered HTTP requests, by endpoint and status.");
  for (const auto& [key, n] : totals.by_status) {
    to.value(static_cast<double>(n), {{"endpoint", key.first}, {"code", std::to_string(key.second)}});
  }
  to.counter("hearth_refused_requests_total", "Requests that were refused, by reason.");
  for (const auto& [reason, n] : totals.refused) to.value(static_cast<double>(n), {{"reason", reason}});
  to.counter("hearth_cancelled_requests_total", "Requests whose client left before the answer was whole.")
      .value(static_cast<double>(totals.n_cancelled));
  to.counter("hearth_http_sent_bytes_total", "Bytes of HTTP answers.")
      .value(static_cast<double>(totals.bytes_sent));
  to.histogram("gen_ai_server_request_duration_seconds",
               "From a request's arrival to the last byte of its answer.");
  for (const auto& [key, seconds] : totals.seconds) {
    to.value(seconds, {{"gen_ai_operation_name", key.first}, {"error_type", key.second}});
  }
}

/// Adds one value per engine to the current family. read: returns the value of a MeteredEngine.
template <class Read>
void each(MetricFamilies& to, const MetricsInput& in, Read read) {
  for (const MeteredEngine& engine : in.engines) {
    to.value(read(engine), {{"gen_ai_response_model", engine.model}});
  }
}

void add_latencies(MetricFamilies& to, const MetricsInput& in) {
  to.histogram("gen_ai_server_time_to_first_token_seconds",
               "From the acceptance of a sequence to its first token.");
  each(to, in, [](const MeteredEngine& e) { return e.figures.first_token_seconds; });
  to.histogram("gen_ai_server_time_per_output_token_seconds",
               "Per sequence: mean time of its tokens after the first one.");
  each(to, in, [](const MeteredEngine& e) { return e.figures.seconds_per_token; });
  to.histogram("hearth_queue_seconds", "How long sequences waited for a slot.");
  each(to, in, [](const MeteredEngine& e) { return e.figures.queue_seconds; });
}

void add_work(MetricFamilies& to, const MetricsInput& in) {
  to.counter("hearth_prompt_tokens_total",
             "Prompt tokens of admitted sequences, computed or from the prefix cache.");
  each(to, in, [](const MeteredEngine& e) { return static_cast<double>(e.status.n_prompt_tokens); });
  to.counter("hearth_cached_prompt_tokens_total", "Prompt tokens that came from the prefix cache.");
  each(to, in, [](const MeteredEngine& e) { return static_cast<double>(e.status.n_cached_tokens); });
  to.counter("hearth_generated_tokens_total", "Tokens that were generated.");
  each(to, in, [](const MeteredEngine& e) { return static_cast<double>(e.status.n_generated_tokens); });
  to.counter("hearth_drafted_tokens_total", "Draft tokens that were computed.");
  each(to, in, [](const MeteredEngine& e) { return static_cast<double>(e.status.n_drafted_tokens); });
  to.counter("hearth_accepted_draft_tokens_total", "Draft tokens that were accepted.");
  each(to, in, [](const MeteredEngine& e) { return static_cast<double>(e.status.n_accepted_tokens); });
  to.counter("hearth_admitted_sequences_total", "Sequences that got a slot.");
  each(to, in, [](const MeteredEngine& e) { return static_cast<double>(e.figures.n_admitted); });
  to.counter("hearth_prefix_hits_total", "Sequences whose prompt began in the prefix cache.");
  each(to, in, [](const MeteredEngine& e) { return static_cast<double>(e.figures.n_prefix_hits); });
  to.counter("hearth_disk_cache_hits_tokens_total",
             "Prompt tokens that came from the prefix cache on disk (--cache-gib).");
  each(to, in, [](const MeteredEngine& e) { return static_cast<double>(e.figures.disk.n_read_tokens); });
  to.counter("hearth_disk_cache_written_bytes_total", "Bytes written to the prefix cache on disk.");
  each(to, in, [](const MeteredEngine& e) { return static_cast<double>(e.figures.disk.n_written_bytes); });
  to.counter("hearth_set_back_sequences_total", "Sequences that lost their slot to others and waited again.");
  each(to, in, [](const MeteredEngine& e) { return static_cast<double>(e.status.n_set_back); });
  to.counter("hearth_finished_sequences_total", "Sequences that ended, by reason.");
  for (const MeteredEngine& engine : in.engines) {
    for (size_t i = 0; i < kFinishReasons; ++i) {
      to.value(static_cast<double>(engine.figures.n_finished[i]),
               {{"gen_ai_response_model", engine.model}, {"reason", kReasons[i]}});
    }
  }
}

void add_load(MetricFamilies& to, const MetricsInput& in) {
  to.gauge("hearth_slots", "Sequences that can run at once.");
  each(to, in, [](const MeteredEngine& e) { return static_cast<double>(e.status.n_slots); });
  to.gauge("hearth_running_sequences", "Sequences in slots.");
  each(to, in, [](const MeteredEngine& e) { return static_cast<double>(e.status.n_running); });
  to.gauge("hearth_waiting_requests", "Requests that have sequences without a slot.");
  each(to, in, [](const MeteredEngine& e) { return static_cast<double>(e.status.n_waiting); });
  to.gauge("hearth_kv_tokens", "Tokens that fit in the KV cache, by what holds the memory now.");
  for (const MeteredEngine& engine : in.engines) {
    const EngineFigures& f = engine.figures;
    const std::pair<std::string_view, int64_t> states[] = {
        {"used", f.kv_used_tokens},
        {"cached", f.kv_cached_tokens},
        {"free", f.kv_tokens - f.kv_used_tokens - f.kv_cached_tokens}};
    for (const auto& [state, n] : states) {
      to.value(static_cast<double>(n), {{"gen_ai_response_model", engine.model}, {"state", state}});
    }
  }
}

void add_steps(MetricFamilies& to, const MetricsInput& in) {
  to.histogram("hearth_step_seconds",
               "Time of the model's steps; kind: decode, or prompt if some tokens are of prompts.");
  for (const MeteredEngine& e : in.engines) {
    to.value(e.figures.decode_step_seconds, {{"gen_ai_response_model", e.model}, {"kind", "decode"}});
    to.value(e.figures.prompt_step_seconds, {{"gen_ai_response_model", e.model}, {"kind", "prompt"}});
  }
  to.histogram("hearth_step_sequences", "Sequences of a step: the batch size.");
  each(to, in, [](const MeteredEngine& e) { return e.figures.step_sequences; });
  to.histogram("hearth_step_tokens", "Tokens of a step.");
  each(to, in, [](const MeteredEngine& e) { return e.figures.step_tokens; });
  to.counter("hearth_stage_seconds_total", "Time of the engine's steps by stage.");
  for (const MeteredEngine& engine : in.engines) {
    const EngineFigures& f = engine.figures;
    const std::pair<std::string_view, double> stages[] = {
        {"schedule", f.schedule_seconds}, {"model", f.model_seconds}, {"choose", f.choose_seconds}};
    for (const auto& [stage, seconds] : stages) {
      to.value(seconds, {{"gen_ai_response_model", engine.model}, {"stage", stage}});
    }
  }
}

void add_sparsity(MetricFamilies& to, const MetricsInput& in) {
  if (in.engines.empty()) return;
  const ModelFigures& model = in.engines.front().figures.model;
  if (in.active_share >= 0) {
    to.gauge("hearth_load_active_neuron_share",
             "Share of active neurons in the text that is computed at load.")
        .value(in.active_share);
  }
  if (in.bytes_per_token > 0) {
    to.gauge("hearth_bytes_per_token", "Bytes of weights read for one decoded token, at that share.")
        .value(in.bytes_per_token);
    to.gauge("hearth_dense_bytes_per_token",
             "Bytes of weights that one decoded token would read if every neuron were read.")
        .value(in.dense_bytes_per_token);
  }
  if (model.experts.chosen > 0) {
    to.counter(
          "hearth_chosen_experts_total",
          "Experts that tokens chose, summed over tokens and layers, by the processor that computed them.")
        .value(static_cast<double>(model.experts.resident), {{"processor", "gpu"}})
        .value(static_cast<double>(model.experts.chosen - model.experts.resident), {{"processor", "cpu"}});
  }
  if (!model.expert_layers.empty()) {
    to.counter(
        "hearth_layer_experts_total",
        "Experts that tokens chose, by layer and by the memory that held them; streamed: copied to the GPU "
        "for a prompt's step, or all of such a step if the GPU did not report the choice.");
    for (const LayerExpertTotals& of : model.expert_layers) {
      const std::string layer = std::to_string(of.layer);
      to.value(static_cast<double>(of.vram), {{"layer", layer}, {"residency", "vram"}})
          .value(static_cast<double>(of.ram), {{"layer", layer}, {"residency", "ram"}})
          .value(static_cast<double>(of.streamed), {{"layer", layer}, {"residency", "streamed"}});
    }
  }
  if (model.exchange) {
    to.counter("hearth_exchanged_experts_total", "Experts copied to the GPU in exchange for others.")
        .value(static_cast<double>(model.exchange->experts));
    to.counter("hearth_exchanged_expert_bytes_total", "Bytes of these copies.")
        .value(static_cast<double>(model.exchange->bytes));
    to.counter("hearth_refused_expert_exchanges_total",
               "Exchanges that promised to pay but did not begin, because the link or its buffers were busy.")
        .value(static_cast<double>(model.exchange->refused));
  }
  if (model.verification) {
    to.counter("hearth_verified_layers_total",
               "Layers of experts that the CPU computed again to verify the GPU, summed over verified steps.")
        .value(static_cast<double>(model.verification->layers));
    to.counter("hearth_verification_mismatches_total", "Verified layers with a result that differed.")
        .value(static_cast<double>(model.verification->mismatches));
  }
  if (model.neurons.n_all == 0) return;
  to.counter("hearth_neurons_total", "Neurons of the FFN, summed over tokens and layers.")
      .value(static_cast<double>(model.neurons.n_all));
  to.counter("hearth_active_neurons_total", "Active neurons: those whose value was not zero.")
      .value(static_cast<double>(model.neurons.n_active));
  to.counter("hearth_read_neurons_total",
             "Neurons whose down rows steps read, by the processor that read them.")
      .value(static_cast<double>(model.neurons.cold_down_rows), {{"processor", "cpu_beside_gpu"}})
      .value(static_cast<double>(model.neurons.down_rows - model.neurons.cold_down_rows),
             {{"processor", "own"}});
}

void add_residency(MetricFamilies& to, const MetricsInput& in) {
  if (in.engines.empty() || !in.engines.front().figures.model.prefetch) return;
  const PrefetchCounters& p = *in.engines.front().figures.model.prefetch;
  to.counter("hearth_wanted_neurons_total",
             "Neurons that steps wanted in layers that GPU and CPU share, by where they were.")
      .value(static_cast<double>(p.hot), {{"residency", "hot"}})
      .value(static_cast<double>(p.cached), {{"residency", "cached"}})
      .value(static_cast<double>(p.cold), {{"residency", "cold"}});
  to.counter("hearth_prefetched_neurons_total", "Neurons that were copied to the GPU ahead of their use.")
      .value(static_cast<double>(p.moved));
  to.counter("hearth_used_prefetches_total", "Prefetched neurons that were wanted while the GPU had them.")
      .value(static_cast<double>(p.used));
  to.counter("hearth_late_prefetches_total", "Prefetched neurons that were wanted before they had arrived.")
      .value(static_cast<double>(p.late));
  to.counter("hearth_pcie_bytes_total", "Bytes that prefetching has copied to the GPU.")
      .value(static_cast<double>(p.bytes));
  to.counter("hearth_pcie_copy_seconds_total", "Time of that copying.").value(p.copy_seconds);
  to.counter("hearth_pcie_hidden_seconds_total",
             "Copy time in which steps computed before they needed the neurons.")
      .value(p.hidden_seconds);
}

void add_memory(MetricFamilies& to, const MetricsInput& in) {
  to.gauge("hearth_disk_cache_bytes", "Files of the prefix cache on disk, of all models.");
  each(to, in, [](const MeteredEngine& e) { return static_cast<double>(e.figures.disk.bytes); });
  to.gauge("hearth_memory_bytes",
           "Memory by place and purpose; file: the mapped model, of which the system keeps what is read.");
  for (const MeteredEngine& engine : in.engines) {
    const ModelFigures& model = engine.figures.model;
    for (size_t i = 0; i < model.n_memory; ++i) {
      const MemoryShare& share = model.memory[i];
      to.value(static_cast<double>(share.bytes),
               {{"gen_ai_response_model", engine.model}, {"place", share.place}, {"purpose", share.purpose}});
    }
  }
}

void add_process(MetricFamilies& to, const ProcessFigures& p) {
  to.counter("process_cpu_seconds_total", "Time that the process has computed, user and system.")
      .value(p.cpu_seconds);
  to.gauge("process_resident_memory_bytes", "Physical memory of the process.")
      .value(static_cast<double>(p.resident_bytes));
  to.gauge("process_virtual_memory_bytes", "Address space of the process.")
      .value(static_cast<double>(p.virtual_bytes));
  to.gauge("process_threads", "Threads of the process.").value(static_cast<double>(p.n_threads));
  to.gauge("process_open_fds", "Open files and connections.").value(static_cast<double>(p.n_open_files));
  to.gauge("process_max_fds", "Files and connections that the process may open.")
      .value(static_cast<double>(p.max_open_files));
  to.gauge("process_start_time_seconds", "When the process began, in seconds since 1970.")
      .value(p.start_unix_seconds);
}

}  // namespace

std::string metrics_text(const MetricsInput& input) {
  MetricFamilies families;
  add_server(families, input);
  add_requests(families, input.requests);
  add_latencies(families, input);
  add_work(families, input);
  add_load(families, input);
  add_steps(families, input);
  add_sparsity(families, input);
  add_residency(families, input);
  add_memory(families, input);
  add_process(families, input.process);
  return prometheus::TextSerializer().Serialize(families.take());
}

}  // namespace hearth
