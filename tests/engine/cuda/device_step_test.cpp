// Steps on the device give the same bits with and without recording, and a recorded step consists of nothing
// but its graphs.
#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/model_runtime.h"
#include "engine/residency/plan.h"
#include "kernels/base/trace.h"
#include "tests/engine/cuda/on_device.h"
#include "tests/engine/cuda/shares.h"
#include "tests/support/catch.h"
#include "tests/support/cudaemu/control.h"
#include "tests/support/golden.h"
#include "tests/support/same_bits.h"

namespace hearth::testing {
namespace {

constexpr int kTokens = 16;

LoadOptions options_of(const std::string& name, const std::string& mode, Share share, bool all_gates) {
  LoadOptions options = device_options("arch/" + name + ".gguf", mode);
  options.prefill_chunk = 16;
  options.choose_placement = placed(share, all_gates);
  return options;
}

/// One token per step.
std::vector<float> decode(ModelRuntime& model) {
  return logits_of(model, spread_tokens(kTokens, model.facts().spec.n_vocab), 1);
}

/// The statistics of the device in steps that were played back, and their model.
struct Played {
  std::unique_ptr<ModelRuntime> model;
  cudaemu::Stats stats;
};

/// Runs steps without graphs, then while recording, then playing back: the bits are equal each time.
Played play_back(LoadOptions options, std::vector<float> (*run)(ModelRuntime&) = decode) {
  options.graphs = false;
  const std::vector<float> expected = run(*ModelRuntime::load(options));
  options.graphs = true;
  std::unique_ptr<ModelRuntime> model = ModelRuntime::load(options);
  REQUIRE(same_bits(run(*model), expected));
  cudaemu::reset_stats();
  REQUIRE(same_bits(run(*model), expected));
  return {std::move(model), cudaemu::stats()};
}

void check_recording(const std::string& name, const std::string& mode, Share share, bool all_gates) {
  INFO(name << " " << mode << " share " << static_cast<int>(share) << " all gates " << all_gates);
  const auto [model, stats] = play_back(options_of(name, mode, share, all_gates));
  CHECK(stats.launches > 0);
  CHECK(stats.launches == stats.graph_kernels);
  CHECK(stats.pageable_async == 0);
  CHECK(stats.default_stream == 0);
  CHECK(stats.allocations == 0);
  // A graph ends at each layer that the CPU has a share of, before the copy of the embeddings for the layers,
  // and at the end of the step.
  const ModelSpec& spec = model->facts().spec;
  const int n_shared = share == Share::kAll ? 0 : spec.n_layers,
            n_copies = spec.d_layer_embedding > 0 ? 1 : 0;
  CHECK(stats.graph_launches == static_cast<uint64_t>(kTokens * (n_shared + n_copies + 1)));
}

TEST_CASE("recorded steps give the same bits and launch nothing but their graphs") {
  const std::string mode = GENERATE("dense", "exact", "predicted");
  check_recording("bamboo.powerinfer", mode, Share::kAll, false);
  check_recording("bamboo.powerinfer", mode, Share::kThird, true);
  check_recording("bamboo.powerinfer", mode, Share::kRandom, false);
  check_recording("bamboo.powerinfer", mode, Share::kNone, false);
}

TEST_CASE("recorded steps of other architectures give the same bits") {
  check_recording("opt.powerinfer", "exact", Share::kRandom, true);
  check_recording("falcon-7b.powerinfer", "predicted", Share::kThird, false);
  check_recording("qwen3", "dense", Share::kThird, false);
  check_recording("qwen35", "dense", Share::kAll, false);
  check_recording("nemotron_h", "dense", Share::kAll, false);
  check_recording("lfm2", "dense", Share::kAll, false);
  check_recording("apertus", "dense", Share::kThird, false);
  check_recording("gemma3n", "dense", Share::kAll, false);
  check_recording("gemma4-e2b", "dense", Share::kAll, false);
}

TEST_CASE("a recorded step of a mixture ends a graph where experts are missing, and no layer synchronizes") {
  const std::string name = GENERATE("qwen3moe", "deepseek2-v3", "glm4moe", "qwen2moe", "qwen35moe", "lfm2moe",
                                    "smallthinker", "llama4", "kimi-linear");
  // In exact mode, smallthinker skips zeros.
  LoadOptions options = device_options("arch/" + name + ".gguf", name == "smallthinker" ? "exact" : "dense");
  options.prefill_chunk = 16;
  options.prefetch = false;  // an exchange of experts has launches of its own
  const DeviceBytes all = ModelRuntime::load(options)->placed().plan->device;
  for (const size_t left_out : {size_t{0}, all.experts / 2}) {
    // There, the solver leaves a whole layer out.
    if (left_out > 0 && name == "smallthinker") continue;
    INFO(name << ", " << left_out << " bytes of experts left out");
    options.vram_budget_bytes = all.total() - left_out;
    const auto [model, stats] = play_back(options);
    const ModelSpec& spec = model->facts().spec;
    const Plan& plan = *model->placed().plan;
    REQUIRE(plan.n_device_layers() == spec.n_layers);
    uint64_t n_missing = 0;  // layers
    for (int layer = 0; layer < spec.n_layers; ++layer) {
      const size_t n_resident = plan.layers[static_cast<size_t>(layer)].experts.size();
      n_missing +=
          spec.layer(layer).experts && n_resident < static_cast<size_t>(spec.mixture.n_experts) ? 1 : 0;
    }
    CHECK((n_missing == 0) == (left_out == 0));
    CHECK(stats.launches == stats.graph_kernels);
    CHECK(stats.graph_launches == kTokens * (n_missing + 1));
    // For the logits, and before embeddings are copied, which a device may have itself.
    CHECK(stats.synchronizations <= 2 * kTokens);
    CHECK(stats.pageable_async == 0);
    CHECK(stats.allocations == 0);
  }
}

TEST_CASE("recorded steps of a model with windows read each step's tables") {
  const WindowModel file("gemma2");
  const auto [model, stats] = play_back(file.options(), [](ModelRuntime& model) {
    return logits_of(model, spread_tokens(90, model.facts().spec.n_vocab), 1);
  });
  REQUIRE(model->limits().window);
  CHECK(stats.launches == stats.graph_kernels);
  CHECK(stats.allocations == 0);
  CHECK(stats.graph_launches == 90);
}

TEST_CASE("without memory for graphs a model runs, with the same bits") {
  const LoadOptions options = options_of("bamboo.powerinfer", "exact", Share::kThird, true);
  const std::vector<float> expected = decode(*ModelRuntime::load(options));
  const auto model = ModelRuntime::load(options);
  cudaemu::reset_stats();
  cudaemu::fail_next("cudaGraphInstantiate", 1, cudaErrorMemoryAllocation);
  CHECK(same_bits(decode(*model), expected));
  CHECK(cudaemu::stats().graph_launches == 1);
  CHECK(same_bits(decode(*model), expected));
}

TEST_CASE("a trace shows every layer's shares and waits, and changes no bit") {
  const bool graphs = GENERATE(false, true);
  INFO("graphs " << graphs);
  LoadOptions options = options_of("bamboo.powerinfer", "exact", Share::kThird, false);
  const std::vector<float> expected = decode(*ModelRuntime::load(options));
  Trace trace;
  options.trace = &trace;
  options.graphs = graphs;
  const auto model = ModelRuntime::load(options);
  CHECK(same_bits(decode(*model), expected));
  const std::vector<Trace::Span> spans = trace.spans();
  const auto n_of = [&](const std::string& track, const std::string& what, int layer) {
    return std::ranges::count_if(spans, [&](const Trace::Span& span) {
      return span.track == track && span.name == what && span.layer == layer;
    });
  };
  for (int layer = 0; layer < model->facts().spec.n_layers; ++layer) {
    INFO("layer " << layer);
    CHECK(n_of("GPU", "attention, active neurons", layer) >= kTokens);
    CHECK(n_of("GPU", "FFN, hot neurons", layer) >= kTokens);
    CHECK(n_of("CPU", "FFN, cold neurons", layer) >= kTokens);
    CHECK(n_of("engine", "waiting for the device", layer) >= kTokens);
  }
  CHECK(n_of("GPU", "the rest of the step", -1) >= kTokens);
  // A stream does one thing at a time.
  std::vector<Trace::Span> of_device;
  std::ranges::copy_if(spans, std::back_inserter(of_device),
                       [](const Trace::Span& span) { return std::string(span.track) == "GPU"; });
  for (size_t i = 0; i < of_device.size(); ++i) {
    CHECK(of_device[i].begin <= of_device[i].end);
    if (i > 0) CHECK(of_device[i - 1].end <= of_device[i].begin + std::chrono::microseconds(1));
  }
}

}  // namespace
}  // namespace hearth::testing
