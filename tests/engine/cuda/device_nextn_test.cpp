// The layer that predicts later tokens with a device: wherever the planner puts it, its logits have the CPU's
// bits, drafts change no answer, and it takes exactly the memory that was planned.
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/forward/nextn_pass.h"
#include "engine/model_runtime.h"
#include "engine/warm_up.h"
#include "tests/engine/cuda/on_device.h"
#include "tests/engine/forward/nextn_ways.h"
#include "tests/engine/serving/engine_client.h"
#include "tests/support/catch.h"
#include "tests/support/cudaemu/control.h"
#include "tests/support/cudaemu/memory.h"

namespace hearth::device_nextn_test {
namespace {

using nextn_pass_test::Row;
using nextn_pass_test::rows_of;
using nextn_pass_test::Way;

LoadOptions options_of(const std::string& name, DeviceChoice device) {
  LoadOptions options = testing::device_options("arch/" + name + ".gguf", "dense");
  options.device = device;
  options.n_threads = 2;
  options.n_slots = 3;
  options.prefill_chunk = 48;
  options.nextn = true;
  options.split = DeviceSplit::kAuto;  // shared neurons of a dense model give other bits than the CPU alone
  return options;
}

size_t total(const ModelRuntime& model) { return model.placed().plan->device.total(); }

bool says(const ModelRuntime& model, const std::string& text) {
  return std::ranges::any_of(model.placed().notes,
                             [&](const std::string& note) { return note.find(text) != std::string::npos; });
}

/// Checks that the device has allocated exactly what was planned.
void check_planned_bytes(const ModelRuntime& model) {
  const size_t granularity = cudaemu::kVramGranularity;
  CHECK(cudaemu::stats().vram_peak == (total(model) + granularity - 1) / granularity * granularity);
}

/// Returns the least budget, to 1,024 bytes, with which the device gets this part of the layer.
size_t least_budget(LoadOptions options, NextnShare share, size_t most) {
  size_t low = 0, high = most;
  while (high - low > 1024) {
    const size_t middle = low + (high - low) / 2;
    options.vram_budget_bytes = middle;
    try {
      const auto model = ModelRuntime::load(options);
      (model->placed().plan->nextn_share >= share ? high : low) = middle;
    } catch (const std::invalid_argument&) {
      low = middle;
    }
  }
  return high;
}

SpeculationOptions always() {
  SpeculationOptions speculation;
  speculation.on = true;
  speculation.max_draft = 3;
  speculation.whatever_it_costs = true;
  return speculation;
}

std::vector<SequenceRequest> requests_of(int n, int n_tokens) {
  std::mt19937 random(5);
  std::vector<SequenceRequest> requests;
  const std::vector<int32_t> shared = some_tokens(32, 99);
  for (int i = 0; i < n; ++i) {
    std::vector<int32_t> prompt(shared.begin(), shared.begin() + i % 2 * 32);
    for (const int32_t token : some_tokens(1 + static_cast<int>(random() % 8), random()))
      prompt.push_back(token);
    SequenceRequest request = i % 3 == 0 ? sampled(prompt, n_tokens, random()) : greedy(prompt, n_tokens);
    request.n_top_logprobs = 2;
    if (i % 2 == 1) request.prefix_ends = {32};
    requests.push_back(request);
  }
  return requests;
}

/// A model's answer to each request alone, and how many tokens it drafted and kept.
struct Run {
  std::vector<std::vector<float>> answers;
  int64_t n_drafted = 0, n_accepted = 0;
};

Run run_alone(ModelRuntime& model, const std::vector<SequenceRequest>& requests, bool drafts) {
  Run run;
  Engine engine(model, {.n_slots = 3,
                        .context_tokens = 64,
                        .prefill_chunk = 48,
                        .speculation = drafts ? always() : SpeculationOptions()});
  for (const SequenceRequest& request : requests) run.answers.push_back(numbers_of(ask(engine, request)));
  run.n_drafted = static_cast<int64_t>(engine.status().n_drafted_tokens);
  run.n_accepted = static_cast<int64_t>(engine.status().n_accepted_tokens);
  return run;
}

}  // namespace

TEST_CASE(
    "the layer that drafts on a device: its logits have the CPU's bits, and it takes the planned bytes") {
  const auto [name, mixture] = GENERATE(std::pair<std::string, bool>{"qwen35-nextn", false},
                                        std::pair<std::string, bool>{"glm4moe", true},
                                        std::pair<std::string, bool>{"deepseek2-v3-nextn", true},
                                        std::pair<std::string, bool>{"mimo2-nextn", false});
  const std::vector<Way> ways{{.name = "whole", .predicts_all = false},
                              {.name = "chunks and neighbors", .chunk = 5, .beside = true},
                              {.name = "drafts", .chunk = 2, .prompt = false, .n_wrong = 3},
                              {.name = "tokens of an answer", .chunk = 1, .prompt = false}};
  std::vector<std::vector<Row>> expected;
  {
    const auto on_cpu = ModelRuntime::load(options_of(name, DeviceChoice::kCpu));
    for (const Way& way : ways) expected.push_back(rows_of(*on_cpu, way));
  }
  LoadOptions options = options_of(name, DeviceChoice::kCuda);
  size_t whole = 0;
  {
    const auto all = ModelRuntime::load(options);
    REQUIRE(all->placed().plan->whole());
    CHECK(all->placed().plan->nextn_share == NextnShare::kWhole);
    whole = total(*all);
  }
  const size_t part = least_budget(options, NextnShare::kAllButExperts, whole);
  std::map<NextnShare, int> seen;
  for (const size_t budget : {whole, whole - 1, (whole + part) / 2, part, part - 1024}) {
    CAPTURE(name, budget, whole, part);
    options.vram_budget_bytes = budget;
    cudaemu::reset_stats();
    const auto model = ModelRuntime::load(options);
    const Plan& plan = *model->placed().plan;
    CHECK(model->limits().predicts);
    CHECK(plan.device.total() <= budget);
    CHECK((plan.device.drafts > 0) == (plan.nextn_share != NextnShare::kNone));
    check_planned_bytes(*model);
    ++seen[plan.nextn_share];
    CHECK(
        says(*model, name == "mimo2-nextn" ? "which predict later tokens" : "which predicts later tokens") ==
        (plan.nextn_share != NextnShare::kWhole));
    for (size_t i = 0; i < ways.size(); ++i) {
      CAPTURE(ways[i].name);
      CHECK(rows_of(*model, ways[i]) == expected[i]);
    }
    check_planned_bytes(*model);
  }
  CHECK(seen[NextnShare::kWhole] > 0);
  CHECK(seen[NextnShare::kNone] > 0);
  CHECK((seen[NextnShare::kAllButExperts] > 0) == mixture);
}

TEST_CASE("the layer that drafts on a device: recorded or not, the same answers and drafts as on the CPU") {
  const std::string name = GENERATE("qwen35-nextn", "glm4moe", "mimo2-nextn");
  const std::vector<SequenceRequest> requests = requests_of(4, 24);
  Run expected, drafted;
  {
    const auto on_cpu = ModelRuntime::load(options_of(name, DeviceChoice::kCpu));
    expected = run_alone(*on_cpu, requests, false);
    drafted = run_alone(*on_cpu, requests, true);
    CHECK(drafted.answers == expected.answers);
    CHECK(drafted.n_drafted > 20);
  }
  LoadOptions options = options_of(name, DeviceChoice::kCuda);
  size_t whole = 0;
  for (const bool graphs : {true, false}) {
    CAPTURE(name, graphs);
    options.graphs = graphs;
    const auto model = ModelRuntime::load(options);
    whole = total(*model);
    const Run run = run_alone(*model, requests, true);
    CHECK(run.answers == expected.answers);
    CHECK(run.n_drafted == drafted.n_drafted);
    CHECK(run.n_accepted == drafted.n_accepted);
    CHECK((cudaemu::stats().graph_launches > 0) >= graphs);
  }
  options.vram_budget_bytes = whole * 3 / 4;
  const auto in_part = ModelRuntime::load(options);
  CHECK_FALSE(in_part->placed().plan->whole());
  const Run run = run_alone(*in_part, requests, true);
  CHECK(run.answers == expected.answers);
  CHECK(run.n_drafted == drafted.n_drafted);
  CHECK(run.n_accepted == drafted.n_accepted);
}

TEST_CASE("the layer that drafts on a device: several sequences, chunks, cached prefixes and lost slots") {
  const std::string name = GENERATE("qwen35-nextn", "glm4moe", "mimo2-nextn");
  const std::vector<SequenceRequest> requests = requests_of(6, 20);
  std::vector<std::vector<float>> expected;
  {
    LoadOptions options = options_of(name, DeviceChoice::kCpu);
    options.nextn = false;
    expected = run_alone(*ModelRuntime::load(options), requests, false).answers;
  }
  const int chunk = GENERATE(7, 48);
  LoadOptions options = options_of(name, DeviceChoice::kCuda);
  options.prefill_chunk = chunk;
  options.n_kv_contexts = 2;
  const auto model = ModelRuntime::load(options);
  Engine engine(*model, {.n_slots = 3,
                         .context_tokens = 64,
                         .prefill_chunk = chunk,
                         .speculation = always(),
                         .promise_tokens = 16});
  for (int round = 0; round < 2; ++round) {
    CAPTURE(name, chunk, round);
    const std::vector<Answer> answers = read_all(*submit(engine, GenerationRequest{.sequences = requests}),
                                                 static_cast<int>(requests.size()));
    for (size_t i = 0; i < requests.size(); ++i) {
      CHECK(answers[i].finished.error.empty());
      CHECK(numbers_of(answers[i]) == expected[i]);
    }
  }
  CHECK(engine.status().n_cached_tokens > 0);
  CHECK(engine.status().n_accepted_tokens > 0);
  CHECK(engine.status().n_accepted_tokens < engine.status().n_drafted_tokens);
}

TEST_CASE("the layer that drafts on a device: it needs memory only if it drafts, and more contexts fit") {
  LoadOptions options = options_of("qwen35-nextn", DeviceChoice::kCuda);
  options.n_kv_contexts = kKvContextsDecided;
  const auto drafts_of = [](const ModelRuntime& model) {
    for (const MemoryShare& part : model.figures().memory) {
      if (std::string(part.place) == "vram" && std::string(part.purpose) == "drafts") return part.bytes;
    }
    return uint64_t{0};
  };
  size_t all = 0, drafts = 0;
  {
    cudaemu::reset_stats();
    const auto with = ModelRuntime::load(options);
    check_planned_bytes(*with);
    CHECK(with->limits().n_blocks == 3 * 64 / 16);
    all = total(*with);
    drafts = with->placed().plan->device.drafts;
    CHECK(drafts_of(*with) == drafts);
  }
  options.vram_budget_bytes = all - 1;
  {
    cudaemu::reset_stats();
    const auto fewer = ModelRuntime::load(options);
    check_planned_bytes(*fewer);
    CHECK(fewer->limits().n_blocks == 2 * 64 / 16);
    CHECK(fewer->placed().plan->nextn_share == NextnShare::kWhole);
  }
  options.vram_budget_bytes.reset();
  options.nextn = false;
  const auto without = ModelRuntime::load(options);
  CHECK_FALSE(without->limits().predicts);
  CHECK(drafts_of(*without) == 0);
  CHECK(total(*without) < all - drafts);
}

TEST_CASE("the layer that drafts on a device: after the warm-up nothing is recorded or allocated") {
  const auto model = ModelRuntime::load(options_of("qwen35-nextn", DeviceChoice::kCuda));
  warm_up(*model, {.n_slots = 3, .context_tokens = 64});
  cudaemu::reset_stats();
  Engine engine(*model, {.n_slots = 3, .context_tokens = 64, .prefill_chunk = 48, .speculation = always()});
  CHECK(ask(engine, greedy(some_tokens(48, 3), 8)).tokens.size() == 8);
  CHECK(engine.status().n_drafted_tokens > 0);
  CHECK(cudaemu::stats().first_launches == 0);
  CHECK(cudaemu::stats().allocations == 0);
}

TEST_CASE("the layer that drafts on a device: placed again within a smaller budget") {
  LoadOptions options = options_of("glm4moe", DeviceChoice::kCuda);
  const auto model = ModelRuntime::load(options);
  const std::vector<Row> expected = rows_of(*model, {.name = "chunks", .chunk = 5});
  options.vram_budget_bytes = total(*model) / 2;
  model->place_again(options);
  CHECK(model->placed().plan->nextn_share != NextnShare::kWhole);
  CHECK(rows_of(*model, {.name = "chunks", .chunk = 5}) == expected);
  // The device grants less than it reports as free.
  options.vram_budget_bytes.reset();
  cudaemu::fail_next("cudaMalloc", 0, cudaErrorMemoryAllocation);
  model->place_again(options);
  CHECK(says(*model, "does not grant"));
  CHECK(rows_of(*model, {.name = "chunks", .chunk = 5}) == expected);
}

}  // namespace hearth::device_nextn_test
