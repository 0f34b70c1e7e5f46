// The interface of the neuron cache: neurons are added and removed between the layers of every step, and the
// answers keep their bits.
#include <bit>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>

#include "engine/load_hooks.h"
#include "engine/model_runtime.h"
#include "kernels/row_prefetcher.h"
#include "tests/engine/cuda/on_device.h"
#include "tests/engine/cuda/shares.h"
#include "tests/support/catch.h"
#include "tests/support/golden.h"

namespace hearth::testing {
namespace {

/// Takes random neurons of the device from their rows, and gives the rows back later. A row keeps its
/// contents, so nothing has to be moved.
class ComeAndGo final : public RowPrefetcher {
 public:
  explicit ComeAndGo(std::vector<LayerPlacement> shares) : shares_(std::move(shares)) {
    gone_.resize(shares_.size());
  }

  std::span<const RowChange> changes(int layer) override {
    const auto l = static_cast<size_t>(layer);
    const std::vector<int32_t>& hot = shares_[l].hot;
    changes_.clear();
    for (int i = 0; i < 20 && !hot.empty(); ++i) {
      const auto device_row = static_cast<int32_t>(rng_() % hot.size());
      const int32_t neuron = hot[static_cast<size_t>(device_row)];
      const bool was_gone = gone_[l].erase(neuron) == 1;
      if (!was_gone) gone_[l].emplace(neuron, device_row);
      changes_.push_back({neuron, was_gone ? device_row : -1});
    }
    n_changes += changes_.size();
    return changes_;
  }

  void enqueued(int layer, void* stream) override {
    REQUIRE(stream != nullptr);
    calls.push_back({layer, 'e'});
  }

  void wanted(int layer, std::span<const uint64_t> any, std::span<const uint64_t> cold) override {
    calls.push_back({layer, 'w'});
    REQUIRE(any.size() == cold.size());
    const auto l = static_cast<size_t>(layer);
    std::vector<uint64_t> here(any.size());
    for (const int32_t id : shares_[l].hot) {
      if (!gone_[l].contains(id)) here[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64);
    }
    for (size_t w = 0; w < any.size(); ++w) {
      REQUIRE(cold[w] == (any[w] & ~here[w]));
      n_cold += static_cast<size_t>(std::popcount(cold[w]));
    }
  }
  void proposed(int /*layer*/, std::span<const uint64_t> /*any*/) override { FAIL("nothing predicts"); }

  void computed(int layer, double seconds) override {
    REQUIRE(calls.back() == std::pair{layer, 'w'});
    REQUIRE(seconds >= 0);
  }

  std::vector<std::pair<int, char>> calls;
  size_t n_changes = 0, n_cold = 0;

 private:
  std::vector<LayerPlacement> shares_;
  // [layer] neurons that are gone, and the device rows they had
  std::vector<std::map<int32_t, int32_t>> gone_;
  std::vector<RowChange> changes_;
  std::mt19937 rng_{9};
};

std::vector<float> logits_with(const std::string& mode, Share share, int chunk, RowPrefetcher* prefetcher) {
  LoadOptions options = device_options("arch/bamboo.powerinfer.gguf", mode);
  options.choose_placement = placed(share, false);
  const auto model = ModelRuntime::load(
      options, LoadHooks{.prefetcher = prefetcher, .wrap_copier = {}, .change_experts = {}});
  return logits_of(*model, spread_tokens(24, model->facts().spec.n_vocab), chunk);
}

TEST_CASE("neurons may come and go in device rows at any layer with the same bits") {
  const std::string mode = GENERATE("dense", "exact", "predicted");
  const Share share = GENERATE(Share::kThird, Share::kRandom);
  const int chunk = GENERATE(5, 1);  // most steps with one token are recorded
  INFO(mode << " " << static_cast<int>(share) << ", " << chunk << " tokens a step");
  const std::vector<float> expected = logits_with(mode, share, chunk, nullptr);
  const auto bamboo = std::filesystem::path(source_dir()) / "tests/data/arch/bamboo.powerinfer.gguf";
  const ModelSpec spec = read_model_spec(ModelFile::open(bamboo), {});
  ComeAndGo prefetcher(shares_of(spec, share, false));
  const std::vector<float> logits = logits_with(mode, share, chunk, &prefetcher);
  REQUIRE(logits.size() == expected.size());
  CHECK(std::memcmp(logits.data(), expected.data(), logits.size() * sizeof(float)) == 0);
  CHECK(prefetcher.n_changes > 0);
  CHECK(prefetcher.n_cold > 0);
  // Each layer makes two calls in turn: its work is enqueued, then the wanted neurons are known.
  for (size_t i = 0; i < prefetcher.calls.size(); ++i) {
    const int layer = static_cast<int>(i / 2) % spec.n_layers;
    REQUIRE(prefetcher.calls[i] == std::pair{layer, i % 2 == 0 ? 'e' : 'w'});
  }
}

}  // namespace
}  // namespace hearth::testing
