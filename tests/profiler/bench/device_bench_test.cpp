// The benchmark on the emulated device: one-time work of the device is done before anything is measured.
#include <memory>
#include <string>

#include "profiler/bench/bench.h"
#include "tests/engine/cuda/on_device.h"
#include "tests/engine/cuda/shares.h"
#include "tests/support/catch.h"
#include "tests/support/cudaemu/control.h"

namespace hearth::test {
namespace {

using testing::Share;

/// The device's work from the first measured step on.
struct Measured {
  uint64_t n_launches, n_graphs, n_first, n_allocations, n_recorded;
};

Measured measure(const LoadOptions& load, BenchOptions options) {
  const auto model = ModelRuntime::load(load);
  cudaemu::forget_kernels();
  options.chunk = model->facts().prompt_step.tokens;
  options.n_repeats = 2;
  run_bench(*model, options, [](double fraction) {
    if (fraction == 0) cudaemu::reset_stats();
  });
  const cudaemu::Stats stats = cudaemu::stats();
  return {.n_launches = stats.launches,
          .n_graphs = stats.graph_launches,
          .n_first = stats.first_launches,
          .n_allocations = stats.allocations,
          .n_recorded = cudaemu::call_counts()["cudaGraphInstantiate"]};
}

void check(const Measured& measured) {
  CHECK(measured.n_launches > 0);
  CHECK(measured.n_graphs > 0);
  CHECK(measured.n_first == 0);
  CHECK(measured.n_allocations == 0);
  CHECK(measured.n_recorded == 0);
}

}  // namespace

TEST_CASE("bench: no kernel is launched for the first time and no step recorded while it measures") {
  LoadOptions load = testing::device_options("relu/relu-5m-q8_0.gguf");
  load.context_tokens = 128;
  load.prefill_chunk = 48;
  load.choose_placement = testing::placed(Share::kThird, false);
  SECTION("a prompt of a chunk and a shorter step") {
    check(measure(load, {.n_prompt = 70, .n_generate = 6}));
  }
  SECTION("single neurons are counted in half of the steps") {
    check(measure(load, {.n_prompt = 40, .n_generate = 8, .counts = true}));
  }
  SECTION("one token after another") { check(measure(load, {.n_prompt = 1, .n_generate = 5})); }
}

TEST_CASE("bench: steps that outgrow a class of recorded ones are warmed up too") {
  const TempFolder folder;
  const std::filesystem::path path = folder / "model.gguf";
  testing::write_changed(std::filesystem::path(testing::source_dir()) / "tests/data/arch/qwen3.gguf", path,
                         {{".context_length", 600}});
  LoadOptions load = testing::device_options(path, "dense");
  load.context_tokens = 520;
  check(measure(load, {.n_prompt = 250, .n_generate = 12}));
}

}  // namespace hearth::test
