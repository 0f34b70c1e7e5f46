// Behavior when CUDA fails: every call and every piece of work of a load and a few steps fails once, each in
// a run of its own. Loading or the step then reports the failure in one sentence, nothing hangs or leaks, and
// after a repair the device serves again.
#include <algorithm>
#include <functional>
#include <map>
#include <string>

#include "engine/model_runtime.h"
#include "kernels/cuda/runtime/cuda_error.h"
#include "tests/engine/cuda/on_device.h"
#include "tests/engine/cuda/shares.h"
#include "tests/support/catch.h"
#include "tests/support/cudaemu/control.h"
#include "tests/support/golden.h"
#include "tests/support/sanitized.h"

namespace hearth::testing {
namespace {

using Counts = std::map<std::string, uint64_t>;

/// A model of which the device has some neurons, so that it works with the CPU in every layer. With prefetch,
/// other neurons come and go.
LoadOptions options(bool prefetch) {
  LoadOptions options = device_options("arch/bamboo.powerinfer.gguf");
  options.context_tokens = 16;
  options.prefill_chunk = 4;
  options.choose_placement = placed(Share::kThird, false, prefetch ? 4 : 0);
  options.prefetch = prefetch;
  return options;
}

/// Two tokens at once, then one by one; neurons in flight arrive in between.
std::vector<float> run_steps(ModelRuntime& model) {
  std::vector<float> logits = logits_of(model, {5, 36}, 2);
  if (model.placed().prefetcher != nullptr) model.placed().prefetcher->settle();
  const std::vector<float> again = logits_of(model, {5, 36}, 1);
  logits.insert(logits.end(), again.begin(), again.end());
  if (model.placed().prefetcher != nullptr) model.placed().prefetcher->settle();
  return logits;
}

struct Outcome {
  std::string failure;        // the exception's message; empty if there was none
  bool while_loading = true;  // otherwise in a step
  bool of_cuda = false;       // the exception was a CudaError, or memory was short
  std::vector<float> logits;
  bool with_less = false;    // a note said what is missing
  Counts loading, stepping;  // numbers of calls, without those that destroy the model

  uint64_t count(const std::string& name) const {
    uint64_t n = 0;
    for (const Counts* part : {&loading, &stepping}) {
      if (const auto found = part->find(name); found != part->end()) n += found->second;
    }
    return n;
  }
};

Counts difference(Counts all, const Counts& before) {
  for (const auto& [name, n] : before) all[name] -= n;
  return all;
}

Outcome load_and_run(const LoadOptions& options) {
  Outcome outcome;
  std::unique_ptr<ModelRuntime> model;
  try {
    model = ModelRuntime::load(options);
    outcome.loading = cudaemu::call_counts();
    outcome.with_less = !model->placed().notes.empty();
    outcome.while_loading = false;
    outcome.logits = run_steps(*model);
    if (model->placed().prefetcher != nullptr && !model->placed().prefetcher->why_stopped().empty())
      outcome.with_less = true;
  } catch (const cuda::CudaError& error) {
    outcome.failure = error.what();
    outcome.of_cuda = true;
  } catch (const std::bad_alloc&) {
    outcome.failure = "There is not enough memory.";  // the engine and main report it in these words
    outcome.of_cuda = true;
  } catch (const std::exception& error) {
    outcome.failure = error.what();
  }
  outcome.stepping = difference(cudaemu::call_counts(), outcome.loading);
  return outcome;
}

bool is_sentence(const std::string& text) {
  return text.size() > 20 && text.find(' ') != std::string::npos && text.find('\n') == std::string::npos;
}

/// Returns whether a call releases something. The test of destruction covers the failures of such calls.
bool gives_back(const std::string& name) {
  return name.starts_with("cudaFree") || name.ends_with("Destroy") || name == "cudaHostUnregister";
}

/// The error that a real device reports when this fails.
cudaError_t error_of(const std::string& name) {
  if (name == "cudaMalloc" || name.starts_with("cudaHost") || name == "cudaMallocHost")
    return cudaErrorMemoryAllocation;
  return name == "launch" || name == "kernel" ? cudaErrorLaunchFailure : cudaErrorUnknown;
}

/// Makes each call of `name` fail once. With prefetch, most calls are equal, so only every fourth fails, and
/// if device_stride() is above 1, fewer. Kernels are loaded by similar calls, so only four of these fail.
/// n_calls: the number of calls in a run without failures.
void fail_each(const std::string& name, uint64_t n_calls, const std::vector<float>& expected,
               bool prefetch = false) {
  const uint64_t stride =
      name == "cudaFuncGetAttributes" ? n_calls / 3 : (prefetch ? 4 : 1) * device_stride();
  for (uint64_t i = 0; i < n_calls; i += stride) {
    INFO(name << ", call " << i << " of " << n_calls);
    cudaemu::reset_stats();
    const cudaemu::Stats before = cudaemu::stats();
    cudaemu::fail_next(name.c_str(), static_cast<int>(i), error_of(name));
    const Outcome outcome = load_and_run(options(prefetch));
    INFO(outcome.failure);
    if (outcome.count(name) <= i) {
      REQUIRE(outcome.logits == expected);  // how often a wait polls depends on timing
    } else if (outcome.failure.empty()) {
      REQUIRE((outcome.with_less || name == "cudaDeviceGetPCIBusId"));  // the link is only reported to people
      REQUIRE(outcome.logits == expected);
    } else {
      REQUIRE(is_sentence(outcome.failure));
      REQUIRE((outcome.while_loading || outcome.of_cuda));
    }
    cudaemu::repair_device();
    REQUIRE(cudaemu::stats().vram_used == before.vram_used);
    REQUIRE(cudaemu::stats().pinned_used == before.pinned_used);
  }
  INFO("after failures of " << name);
  REQUIRE(load_and_run(options(prefetch)).logits == expected);
}

/// The calls of loading and of steps, and their results.
Outcome undisturbed(bool prefetch = false) {
  cudaemu::repair_device();
  cudaemu::reset_stats();
  Outcome outcome = load_and_run(options(prefetch));
  REQUIRE(outcome.failure.empty());
  return outcome;
}

Counts counts_of(const Outcome& outcome, const std::function<bool(const std::string&)>& wanted) {
  Counts chosen;
  for (const Counts* part : {&outcome.loading, &outcome.stepping}) {
    for (const auto& [name, n] : *part) {
      if (n > 0 && !gives_back(name) && wanted(name)) chosen[name] += n;
    }
  }
  return chosen;
}

TEST_CASE("device: a failing CUDA call is reported in a sentence and leaks nothing") {
  const Outcome good = undisturbed();
  const Counts calls = counts_of(good, [](const std::string& name) { return name.starts_with("cuda"); });
  CHECK(calls.count("cudaMalloc") == 1);
  CHECK(calls.count("cudaHostAlloc") == 1);
  CHECK(calls.count("cudaMemcpyAsync") == 1);
  for (const auto& [name, n] : calls) fail_each(name, n, good.logits);
}

TEST_CASE("device: a failing launch is reported in a sentence and leaks nothing") {
  const Outcome good = undisturbed();
  fail_each("launch", counts_of(good, [](const std::string&) { return true; })["launch"], good.logits);
}

TEST_CASE("device: work that faults while it runs is reported in a sentence and leaks nothing") {
  const Outcome good = undisturbed();
  for (const char* work : {"kernel", "copy", "fill"}) {
    const uint64_t n = counts_of(good, [&](const std::string& name) { return name == work; })[work];
    CHECK(n > 0);
    fail_each(work, n, good.logits);
  }
}

// How often the Prefetcher copies depends on timing, so no two runs make the same number of calls; a run's
// result does not depend on it.
TEST_CASE("device: a failure while neurons move is reported and never changes a result") {
  const Outcome good = undisturbed(true);
  const Outcome without = undisturbed(false);
  CHECK(good.logits == without.logits);
  for (const auto& [name, n] : counts_of(good, [](const std::string&) { return true; })) {
    const Counts& before = without.stepping;
    const bool is_copiers = before.count(name) == 0 || n > without.count(name);
    if (is_copiers) fail_each(name, n, good.logits, true);
  }
}

}  // namespace
}  // namespace hearth::testing
