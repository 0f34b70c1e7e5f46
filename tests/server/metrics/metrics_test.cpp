// Tests what /metrics reports (counts of requests, the text, the process), and its separate port.
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>

#include "server/metrics/metrics_page.h"
#include "server/metrics/metrics_text.h"
#include "server/metrics/process_figures.h"
#include "server/metrics/request_counts.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

using namespace hearth;

namespace {

AccessRecord answered(const std::string& method, const std::string& path, int status, double seconds = 0.1) {
  AccessRecord record;
  record.method = method;
  record.path = path;
  record.status = status;
  record.bytes = 100;
  record.seconds = seconds;
  return record;
}

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

}  // namespace

TEST_CASE("histograms count a value under the first bound that is not less") {
  static constexpr std::array<double, 3> kBounds = {1, 2, 4};
  Histogram histogram(kBounds);
  for (const double value : {0.5, 1.0, 1.5, 4.0, 5.0, 6.0}) histogram.add(value);
  CHECK(std::vector<uint64_t>(histogram.counts().begin(), histogram.counts().end()) ==
        std::vector<uint64_t>{2, 1, 1, 2});
  CHECK(histogram.n() == 6);
  CHECK(histogram.sum() == 18);
}

TEST_CASE("requests are counted by endpoint and status, however clients write the path") {
  RequestCounts counts;
  counts.add(answered("POST", "/v1/chat/completions", 200, 0.5));
  counts.add(answered("POST", "/chat/completions", 200, 1.5));
  counts.add(answered("POST", "/v1/chat/completions", 429, 0));
  counts.add(answered("GET", "/v1/models/some-model", 200));
  counts.add(answered("GET", "/health", 503));
  for (int i = 0; i < 1000; ++i) counts.add(answered("GET", "/" + std::to_string(i), 404));
  AccessRecord left = answered("POST", "/v1/completions", 200, 3);
  left.generation = GenerationRecord{.ended = "client left"};
  counts.add(left);
  AccessRecord broken = answered("POST", "/v1/embeddings", 200);
  broken.complete = false;
  counts.add(broken);

  const RequestCounts::Totals totals = counts.totals();
  CHECK(totals.by_status.at({"/chat/completions", 200}) == 2);
  CHECK(totals.by_status.at({"/chat/completions", 429}) == 1);
  CHECK(totals.by_status.at({"/models/*", 200}) == 1);
  CHECK(totals.by_status.at({"/health", 503}) == 1);
  CHECK(totals.by_status.at({"other", 404}) == 1000);
  CHECK(totals.by_status.size() == 7);  // a client that requests many paths adds no series
  CHECK(totals.refused ==
        std::map<std::string_view, uint64_t>{{"queue_full", 1}, {"unavailable", 1}, {"not_found", 1000}});
  CHECK(totals.n_cancelled == 2);
  CHECK(totals.bytes_sent == 100 * 1007);
  CHECK(totals.seconds.at({"chat", ""}).n() == 2);
  CHECK(totals.seconds.at({"chat", ""}).sum() == 2);
  CHECK(totals.seconds.at({"chat", "429"}).n() == 1);
  CHECK(totals.seconds.at({"text_completion", ""}).n() == 1);
  CHECK(totals.seconds.at({"embeddings", ""}).n() == 1);
  CHECK(totals.seconds.size() == 4);
}

TEST_CASE("the text has a line for each value, and escapes what labels hold") {
  MetricsInput input;
  input.version = "1.2.3";
  input.backend = "CPU \"fast\"\nfake 1";
  input.healthy = true;
  MeteredEngine engine;
  engine.model = "tiny";
  engine.status.n_slots = 4;
  engine.status.n_running = 3;
  engine.status.n_generated_tokens = 12345678901;
  engine.figures.first_token_seconds.add(0.07);
  engine.figures.kv_tokens = 100;
  engine.figures.kv_used_tokens = 30;
  engine.figures.kv_cached_tokens = 20;
  engine.figures.n_finished[static_cast<size_t>(FinishReason::kCancelled)] = 2;
  engine.figures.model.neurons = {.n_all = 1000, .n_active = 200, .down_rows = 150, .cold_down_rows = 50};
  engine.figures.model.experts = {.chosen = 90, .resident = 60};
  engine.figures.model.expert_layers = {{.layer = 1, .vram = 30, .ram = 10, .streamed = 5}, {.layer = 3}};
  engine.figures.model.exchange = {.experts = 3, .bytes = 3000, .refused = 8};
  engine.figures.model.verification = {.layers = 96, .mismatches = 2};
  engine.figures.model.prefetch.emplace();
  engine.figures.model.prefetch->hot = 7;
  engine.figures.model.prefetch->late = 5;
  engine.figures.model.add_memory("vram", "kv", 4096);
  input.engines.push_back(engine);
  const std::string text = metrics_text(input);
  CHECK(has_line(text, R"(hearth_build_info{version="1.2.3",backend="CPU \"fast\"\nfake 1"} 1)"));
  CHECK(has_line(text, "hearth_up 1"));
  CHECK(has_line(text, R"(hearth_running_sequences{gen_ai_response_model="tiny"} 3)"));
  CHECK(has_line(text, R"(hearth_generated_tokens_total{gen_ai_response_model="tiny"} 12345678901)"));
  const std::string first = "gen_ai_server_time_to_first_token_seconds";
  CHECK(has_line(text, "# TYPE " + first + " histogram"));
  CHECK(has_line(text, first + R"(_bucket{gen_ai_response_model="tiny",le="0.06"} 0)"));
  CHECK(has_line(text, first + R"(_bucket{gen_ai_response_model="tiny",le="0.08"} 1)"));
  CHECK(has_line(text, first + R"(_bucket{gen_ai_response_model="tiny",le="+Inf"} 1)"));
  CHECK(has_line(text, R"(hearth_kv_tokens{gen_ai_response_model="tiny",state="free"} 50)"));
  CHECK(has_line(text,
                 R"(hearth_finished_sequences_total{gen_ai_response_model="tiny",reason="cancelled"} 2)"));
  CHECK(has_line(text, "hearth_active_neurons_total 200"));
  CHECK(has_line(text, R"(hearth_read_neurons_total{processor="own"} 100)"));
  CHECK(has_line(text, R"(hearth_chosen_experts_total{processor="gpu"} 60)"));
  CHECK(has_line(text, R"(hearth_chosen_experts_total{processor="cpu"} 30)"));
  CHECK(has_line(text, R"(hearth_layer_experts_total{layer="1",residency="vram"} 30)"));
  CHECK(has_line(text, R"(hearth_layer_experts_total{layer="1",residency="ram"} 10)"));
  CHECK(has_line(text, R"(hearth_layer_experts_total{layer="1",residency="streamed"} 5)"));
  CHECK(has_line(text, R"(hearth_layer_experts_total{layer="3",residency="vram"} 0)"));
  CHECK(has_line(text, "hearth_refused_expert_exchanges_total 8"));
  CHECK(has_line(text, "hearth_exchanged_experts_total 3"));
  CHECK(has_line(text, "hearth_exchanged_expert_bytes_total 3000"));
  CHECK(has_line(text, "hearth_verified_layers_total 96"));
  CHECK(has_line(text, "hearth_verification_mismatches_total 2"));
  CHECK(has_line(text, R"(hearth_wanted_neurons_total{residency="hot"} 7)"));
  CHECK(has_line(text, "hearth_late_prefetches_total 5"));
  CHECK(
      has_line(text, R"(hearth_memory_bytes{gen_ai_response_model="tiny",place="vram",purpose="kv"} 4096)"));
  // A model without experts on a GPU has no metrics of them.
  input.engines.front().figures.model.expert_layers.clear();
  input.engines.front().figures.model.exchange.reset();
  CHECK_THAT(metrics_text(input), !ContainsSubstring("layer=") && !ContainsSubstring("exchange"));
}

TEST_CASE("while a model is loading the text has its progress and no engine figures") {
  MetricsInput input;
  input.load_progress = 0.25;
  const std::string text = metrics_text(input);
  CHECK(has_line(text, "hearth_up 0"));
  CHECK(has_line(text, "hearth_load_progress 0.25"));
  CHECK(text.find("hearth_slots") == std::string::npos);
}

TEST_CASE("the process's figures come from /proc, whatever the process's name") {
  const ProcessFigures own = read_process_figures();
  CHECK(own.resident_bytes > 1 << 20);
  CHECK(own.n_threads >= 1);
  CHECK(own.n_open_files >= 3);
  CHECK(own.max_open_files >= own.n_open_files);
  CHECK(own.start_unix_seconds > 1.5e9);

  const test::TempFolder folder;
  std::filesystem::create_directories(folder.path() / "self" / "fd");
  std::ofstream(folder.path() / "self" / "fd" / "7") << "open";
  std::ofstream(folder.path() / "stat") << "cpu 1 2 3\nbtime 1700000000\n";
  std::ofstream(folder.path() / "self" / "stat")
      << "12 (a) b (c)) S 1 1 1 0 -1 0 5 6 7 8 150 50 0 0 20 0 9 0 300 4096000 25 0\n";
  const ProcessFigures made = read_process_figures(folder.path());
  CHECK(made.cpu_seconds == 200.0 / static_cast<double>(sysconf(_SC_CLK_TCK)));
  CHECK(made.n_threads == 9);
  CHECK(made.virtual_bytes == 4096000);
  CHECK(made.resident_bytes == 25 * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
  CHECK(made.n_open_files == 1);
  CHECK(made.start_unix_seconds == 1700000000 + 300.0 / static_cast<double>(sysconf(_SC_CLK_TCK)));
  CHECK(read_process_figures(folder.path() / "nothing").n_threads == 0);
}

TEST_CASE("the metrics port serves metrics and health checks, and nothing else") {
  const ServerState state;
  const MetricsPage page(state, "1.2.3");
  const auto ask = [&](const std::string& method, const std::string& path) {
    HttpRequest request;
    request.method = method;
    request.path = path;
    return page.serve_alone(request);
  };
  CHECK(ask("GET", "/metrics").status == 200);
  CHECK(ask("GET", "/metrics").content_type == kMetricsContentType);
  CHECK(ask("HEAD", "/metrics").status == 200);
  CHECK(ask("GET", "/health").status == 503);  // nothing is loaded
  CHECK(ask("GET", "/livez").status == 200);
  CHECK(ask("GET", "/readyz").status == 503);
  CHECK(ask("GET", "/v1/models").status == 404);
  CHECK(ask("POST", "/metrics").status == 405);
}
