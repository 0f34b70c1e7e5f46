// Whole models whose cold neurons are moved to the device while it computes: the answers keep their bits,
// whichever neurons arrive at which time, and the copies run beside the layers.
#include <algorithm>
#include <mutex>
#include <random>
#include <thread>

#include "engine/load_hooks.h"
#include "engine/model_runtime.h"
#include "tests/engine/cuda/on_device.h"
#include "tests/engine/cuda/shares.h"
#include "tests/support/catch.h"
#include "tests/support/golden.h"
#include "tests/support/same_bits.h"
#include "tests/support/sanitized.h"

namespace hearth::testing {
namespace {

constexpr int kTokens = 24;

/// Any model, but every step begins when no more neurons are to be moved.
class Settled final : public ForwardModel {
 public:
  explicit Settled(ModelRuntime& model) : model_(model) {}
  StepLimits limits() const override { return model_.limits(); }
  StepOutput forward(const Batch& batch) override {
    const StepOutput output = model_.forward(batch);
    if (model_.placed().prefetcher != nullptr) model_.placed().prefetcher->settle();
    return output;
  }

 private:
  ModelRuntime& model_;
};

LoadOptions options_of(const std::string& name, const std::string& mode, bool all_gates, int64_t n_cache) {
  LoadOptions options = device_options("arch/" + name + ".gguf", mode);
  options.choose_placement = placed(Share::kThird, all_gates, n_cache);
  return options;
}

std::vector<int32_t> some_tokens(const ModelRuntime& model, unsigned seed) {
  std::mt19937 rng(seed);
  std::vector<int32_t> tokens;
  for (int i = 0; i < kTokens; ++i)
    tokens.push_back(static_cast<int32_t>(rng() % static_cast<unsigned>(model.facts().spec.n_vocab)));
  return tokens;
}

std::vector<float> without_prefetch(LoadOptions options, unsigned seed) {
  options.prefetch = false;
  const auto model = ModelRuntime::load(options);
  CHECK(model->placed().prefetcher == nullptr);
  return logits_of(*model, some_tokens(*model, seed), 1);
}

void check_prefetch(const std::string& name, const std::string& mode) {
  const std::vector<float> expected = without_prefetch(options_of(name, mode, true, 20), 1);
  for (const auto& [all_gates, n_cache] : {std::pair{true, 1}, std::pair{true, 20}, std::pair{false, 20}}) {
    INFO(name << " " << mode << ", all gates " << all_gates << ", cache of " << n_cache);
    const auto model = ModelRuntime::load(options_of(name, mode, all_gates, n_cache));
    const std::vector<int32_t> tokens = some_tokens(*model, 1);
    REQUIRE(model->placed().prefetcher != nullptr);
    REQUIRE(same_bits(logits_of(*model, tokens, 1), expected));
    // The cache holds whatever another text has left, and as much as possible is moved in time.
    Settled settled(*model);
    logits_of(settled, some_tokens(*model, 2), 3);
    REQUIRE(same_bits(logits_of(settled, tokens, 1), expected));
    REQUIRE(same_bits(logits_of(settled, tokens, 7), expected));
    const PrefetchCounters counters = model->placed().prefetcher->counters();
    CHECK(model->placed().prefetcher->why_stopped().empty());
    CHECK(counters.moved > 0);
    CHECK(counters.used > 0);
    CHECK(counters.used <= counters.moved);
    CHECK(counters.evicted <= counters.moved);
    CHECK(counters.evicted_unused <= counters.evicted);
    CHECK(counters.evicted_unused <= counters.moved - counters.used);
    CHECK(counters.bytes > 0);
    CHECK(counters.copy_seconds > 0);
    CHECK(counters.hidden_seconds <= counters.copy_seconds);
  }
}

TEST_CASE("no neurons are prefetched without device rows for them") {
  const auto model = ModelRuntime::load(options_of("bamboo.powerinfer", "exact", true, 0));
  CHECK(model->placed().prefetcher == nullptr);
}

TEST_CASE("prefetching changes no bit: dense") {
  check_prefetch(GENERATE(from_range(some_of({"relu-llama", "falcon-7b.powerinfer"}))), "dense");
}

TEST_CASE("prefetching changes no bit: exact") {
  check_prefetch(GENERATE(from_range(some_of(
                     {"relu-llama", "relu-llama.powerinfer", "bamboo.powerinfer", "opt.powerinfer"}))),
                 "exact");
}

TEST_CASE("prefetching changes no bit: predicted") {
  check_prefetch(GENERATE(from_range(some_of({"relu-llama.powerinfer", "bamboo.powerinfer",
                                              "falcon-7b.powerinfer", "opt.powerinfer"}))),
                 "predicted");
}

/// Passes on moves in another order, in parts or late, or fails after some of them.
class Contrary final : public RowCopier {
 public:
  Contrary(std::unique_ptr<RowCopier> copier, bool late, int n_good)
      : copier_(std::move(copier)), late_(late), n_good_(n_good) {}

  void gate(int layer, void* stream) override { copier_->gate(layer, stream); }
  void start(int layer, std::span<const RowChange> moves) override {
    if (n_good_-- == 0) throw std::runtime_error("a test says so.");
    std::vector<RowChange> backward(moves.rbegin(), moves.rend());
    const size_t half = backward.size() / 2;
    copier_->start(layer, std::span(backward).first(half));
    copier_->start(layer, std::span(backward).subspan(half));
  }
  Copied wait() override {
    const Copied copied = copier_->wait();
    // by the clock: no result depends on it
    if (late_) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return copied;
  }

 private:
  std::unique_ptr<RowCopier> copier_;
  const bool late_;
  int n_good_;
};

TEST_CASE("neurons that arrive out of order, late or never change no bit") {
  const std::string mode = GENERATE("dense", "exact", "predicted");
  // A dense layer's cache is full after one move, and there are three such layers: the second move fails.
  const auto [late, n_good] = GENERATE(std::pair{false, -1}, std::pair{true, -1}, std::pair{false, 1});
  INFO(mode << ", late " << late << ", good moves " << n_good);
  LoadOptions options = options_of("bamboo.powerinfer", mode, mode == "exact", 20);
  const std::vector<float> expected = without_prefetch(options, 3);
  std::mutex mutex;
  std::vector<std::string> warnings;
  options.warn = [&](const std::string& sentence) {
    const std::lock_guard lock(mutex);
    warnings.push_back(sentence);
  };
  LoadHooks hooks;
  hooks.wrap_copier = [late = late, n_good = n_good](std::unique_ptr<RowCopier> copier) {
    return std::make_unique<Contrary>(std::move(copier), late, n_good);
  };
  const auto model = ModelRuntime::load(options, hooks);
  const std::vector<int32_t> tokens = some_tokens(*model, 3);
  CHECK(same_bits(logits_of(*model, tokens, 1), expected));
  Settled settled(*model);
  CHECK(same_bits(logits_of(settled, tokens, 4), expected));
  CHECK(same_bits(logits_of(*model, tokens, 1), expected));
  const std::lock_guard lock(mutex);
  CHECK(warnings.size() == (n_good < 0 ? 0 : 1));
  if (n_good > 0) CHECK(warnings.at(0).find("a test says so.") != std::string::npos);
  CHECK(model->placed().prefetcher->why_stopped().empty() == warnings.empty());
}

}  // namespace
}  // namespace hearth::testing
