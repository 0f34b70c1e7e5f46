// Tests the benchmark's report: the figures exist and agree with one another and with the model. Does not
// test the machine's speed.
#include "profiler/bench/bench.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "profiler/machine/read_bandwidth.h"
#include "tests/support/catch.h"

namespace hearth::test {
namespace {

std::unique_ptr<ModelRuntime> load(int context, int chunk, const std::string& name = "llama-gqa-tied") {
  LoadOptions options;
  options.path = std::filesystem::path(hearth::testing::source_dir()) / "tests/data/arch" / (name + ".gguf");
  options.n_threads = 1;
  options.n_slots = 1;
  options.context_tokens = context;
  options.prefill_chunk = chunk;
  return ModelRuntime::load(options);
}

}  // namespace

TEST_CASE("bench: layers with a window read only the keys and values in it") {
  const BenchOptions options{.n_threads = 1, .n_prompt = 40, .n_generate = 24, .chunk = 16, .n_repeats = 1};
  const auto model = load(64, 16, "gemma2");
  const ModelSpec& spec = model->facts().spec;
  double n_seen = 0;
  for (const LayerSpec& layer : spec.layers) n_seen += layer.window > 0 ? 8 : 53;
  REQUIRE(n_seen < 53.0 * spec.n_layers);
  CHECK(run_bench(*model, options, {}).decode_bytes_per_token ==
        static_cast<double>(model->facts().weight_bytes) + n_seen * spec.kv_dim() * 2 * 2);
}

TEST_CASE("bench: figures are positive and agree with one another") {
  const BenchOptions options{.n_threads = 2, .n_prompt = 40, .n_generate = 24, .chunk = 16, .n_repeats = 2};
  const auto model = load(64, 16);  // not one position to spare
  std::vector<double> seen;
  const BenchResult r = run_bench(*model, options, [&](double fraction) { seen.push_back(fraction); });
  CHECK(std::is_sorted(seen.begin(), seen.end()));
  REQUIRE_FALSE(seen.empty());
  CHECK(seen.front() == 0.0);
  CHECK(seen.back() == Approx(1.0));
  CHECK(r.prefill_tokens_per_s > 0);
  CHECK(r.decode_tokens_per_s > 0);
  CHECK(std::isfinite(r.prefill_tokens_per_s));
  CHECK(std::isfinite(r.decode_tokens_per_s));
  // A token reads the weights once, and the keys and values of the 53 positions at the middle of the
  // generation. 2 layers have 2 heads, each with 16 halves for keys and 16 for values.
  CHECK(r.decode_bytes_per_token ==
        static_cast<double>(model->facts().weight_bytes) + 53.0 * 2 * 2 * 16 * 2 * 2);
  CHECK(r.achieved_bytes_per_s == Approx(r.decode_tokens_per_s * r.decode_bytes_per_token));
  // No memory that this runs on reads less than 1 MB/s, however busy the machine is, or more than 10 TB/s.
  CHECK(r.bandwidth.ram > 1e6);
  CHECK(r.bandwidth.ram < 1e13);
  // Medians of different repeats need not be each other's ratio.
  CHECK(r.share_of_bound > 0);
  CHECK(std::isfinite(r.share_of_bound));

  const nlohmann::json json = nlohmann::json::parse(bench_json(*model, options, r));
  CHECK(json.at("prefill_tokens_per_s") == r.prefill_tokens_per_s);
  CHECK(json.at("decode_tokens_per_s") == r.decode_tokens_per_s);
  CHECK(json.at("decode_bytes_per_token") == r.decode_bytes_per_token);
  CHECK(json.at("read_bandwidth_bytes_per_s") == r.bandwidth.ram);
  CHECK(json.at("device") == "CPU");
  CHECK(json.at("share_of_bound") == r.share_of_bound);
  CHECK(json.at("prompt") == 40);
  CHECK(json.at("generate") == 24);
  CHECK(json.at("threads") == 2);
  CHECK(json.at("model") == "llama-gqa-tied.gguf");

  const std::string text = bench_text(*model, options, r);
  for (const char* part : {"llama-gqa-tied.gguf", "prefill", "decode", "GB/s", "40 tokens in steps of 16"}) {
    CHECK_THAT(text, ContainsSubstring(part));
  }
}

TEST_CASE("bench: the share of the bound for one repeat is its rate divided by the memory's") {
  const BenchOptions options{.n_threads = 1, .n_prompt = 4, .n_generate = 4, .chunk = 4, .n_repeats = 1};
  const auto model = load(8, 4);
  const BenchResult r = run_bench(*model, options);
  CHECK(r.share_of_bound == Approx(r.achieved_bytes_per_s / r.bandwidth.ram));
}

TEST_CASE("bench: prompts and generations of one token can be measured") {
  const BenchOptions options{.n_threads = 1, .n_prompt = 1, .n_generate = 1, .chunk = 1, .n_repeats = 1};
  const auto model = load(2, 1);
  const BenchResult r = run_bench(*model, options);
  CHECK(r.prefill_tokens_per_s > 0);
  CHECK(r.decode_tokens_per_s > 0);
}

TEST_CASE("read bandwidth: any number of threads can read, even more than there are processors") {
  for (const int n_threads : {1, 3}) CHECK(ReadBandwidth(n_threads).measure().now.median > 1e6);
}

}  // namespace hearth::test
