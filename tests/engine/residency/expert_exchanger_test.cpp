// The exchanger of experts: what it asks of the device and when, and what it says about residency.
#include "engine/residency/expert_exchanger.h"

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <vector>

#include "engine/model/weights.h"
#include "kernels/base/virtual_time.h"
#include "tests/support/catch.h"

namespace hearth::test {
namespace {

constexpr int kExperts = 8;

/// A device that copies when the test says so.
class ScriptedExperts final : public HybridExperts {
 public:
  void begin(const HybridExpertLayer&, const HybridExpertCall&) override {}
  ExpertChoice wait() override { return {}; }
  void end(const GatedSharedExpert&, ExpertCounts&) override {}
  int most_changes(const Expert&) const override { return most; }
  void begin_change(const SlotChange& change) override {
    if (VirtualTime::current() != nullptr) VirtualTime::current()->spend(seconds);
    under_way.push_back(change);
    REQUIRE(static_cast<int>(under_way.size()) <= most);
  }
  int changes_arrived() override { return std::min(n_arrived, static_cast<int>(under_way.size())); }
  void end_changes(int n) override {
    REQUIRE(n <= static_cast<int>(under_way.size()));
    under_way.erase(under_way.begin(), under_way.begin() + n);
    n_ended += n;
  }
  double change_seconds() const override { return 0; }

  std::vector<SlotChange> under_way;
  int n_arrived = 100;  // at most
  int n_ended = 0, most = 4;
  double seconds = 0;  // of begin_change(), if time is virtual
};

/// Two layers of a mixture, numbers 3 and 5, whose first two experts are on the device.
class Model {
 public:
  Model() {
    for (Layer& layer : layers_) {
      layer.mixture.experts.resize(kExperts);
      for (Expert& expert : layer.mixture.experts) {
        expert.up = {layer.weights.data(), DType::kF32, 4, 4};
        expert.down = expert.up;
      }
      MemoryMeter meter;
      layer.slabs = std::make_unique<ExpertSlabs>(layer.mixture, std::vector<int32_t>{0, 1}, 2, meter);
    }
  }
  std::vector<ExpertExchanger::Layer> layers() {
    std::vector<ExpertExchanger::Layer> layers;
    for (size_t i = 0; i < layers_.size(); ++i) {
      layers.push_back({.layer = i == 0 ? 3 : 5,
                        .host = layers_[i].mixture.experts,
                        .slabs = layers_[i].slabs.get(),
                        .use = {}});
    }
    return layers;
  }
  std::span<const int32_t> held(size_t layer) const { return layers_[layer].slabs->experts(); }
  const Expert& expert(size_t layer, size_t e) const { return layers_[layer].mixture.experts[e]; }

 private:
  struct Layer {
    MixtureWeights mixture;
    std::array<std::byte, 64> weights{};
    std::unique_ptr<ExpertSlabs> slabs;
  };
  std::array<Layer, 2> layers_;
};

Batch decoding() {
  Batch batch;
  batch.tokens = {1};
  return batch;
}

Batch prompt() {
  Batch batch = decoding();
  batch.prompt_rows = {0};
  return batch;
}

/// A step whose token chooses these experts in layer 5.
void step(ExpertExchanger& exchanger, const std::vector<int32_t>& chosen, const Batch& batch = decoding()) {
  exchanger.begin_step(batch);
  exchanger.use(5, {.n_tokens = 1, .n_used = static_cast<int>(chosen.size()), .experts = chosen.data()});
  exchanger.end_step();
}

bool is_resident(const ExpertExchanger& exchanger, int expert) {
  std::array<uint64_t, 1> bits{};
  REQUIRE(exchanger.resident(5, bits));
  return (bits[0] >> expert & 1) != 0;
}

}  // namespace

TEST_CASE("expert exchanger: an expert that is used again and again takes the slot of an unused one") {
  Model model;
  ScriptedExperts device;
  device.n_arrived = 0;
  ExpertExchanger exchanger(model.layers(), device, 0);
  for (int i = 0; i < 40 && device.under_way.empty(); ++i) step(exchanger, {0, 6});
  REQUIRE(device.under_way.size() == 1);
  const SlotChange change = device.under_way.front();
  CHECK(change.expert == 6);
  CHECK(change.evicted == 1);
  CHECK(change.slot == 1);
  CHECK(change.from == &model.expert(1, 6));
  CHECK(exchanger.totals().experts == 1);
  CHECK(exchanger.totals().bytes == 2 * 64);
  // Until the copy has arrived, the slot has the old expert, and steps go on.
  step(exchanger, {0, 6});
  CHECK(device.n_ended == 0);
  CHECK(is_resident(exchanger, 1));
  CHECK_FALSE(is_resident(exchanger, 6));
  device.n_arrived = 1;
  step(exchanger, {0, 6});
  CHECK(device.n_ended == 1);
  CHECK(model.held(1)[1] == 6);
  CHECK(model.held(0)[1] == 1);
  CHECK(is_resident(exchanger, 6));
  CHECK_FALSE(is_resident(exchanger, 1));
}

TEST_CASE("expert exchanger: a prompt completes exchanges, and neither counts nor begins any") {
  Model model;
  ScriptedExperts device;
  ExpertExchanger exchanger(model.layers(), device, 0);
  for (int i = 0; i < 40; ++i) step(exchanger, {0, 6}, prompt());
  CHECK(device.under_way.empty());
  CHECK(exchanger.totals().experts == 0);
  CHECK(exchanger.totals().refused == 0);
  device.n_arrived = 0;
  for (int i = 0; i < 40 && device.under_way.empty(); ++i) step(exchanger, {0, 6});
  REQUIRE(device.under_way.size() == 1);
  step(exchanger, {0, 6}, prompt());
  CHECK(device.n_ended == 1);
  CHECK(is_resident(exchanger, 6));
}

TEST_CASE("expert exchanger: it never begins more copies than fit in the device's buffer") {
  Model model;
  ScriptedExperts device;
  device.most = 1;
  ExpertExchanger exchanger(model.layers(), device, 0);
  for (int i = 0; i < 200; ++i) {
    step(exchanger, {5, 6});
    CHECK(device.under_way.size() <= 1);
  }
  CHECK(exchanger.totals().refused > 0);
  CHECK(is_resident(exchanger, 5));
  CHECK(is_resident(exchanger, 6));
  device.most = 0;
  CHECK_FALSE(ExpertExchanger::can_exchange(model.layers(), device));
  CHECK_FALSE(ExpertExchanger::can_exchange({}, device));
}

TEST_CASE("expert exchanger: the longer an exchange takes, the more uses it has to gain") {
  // A use of an expert is worth 128 bytes at 128 MB/s, one microsecond.
  const auto n_exchanged = [](double seconds) {
    const VirtualTime time;
    Model model;
    ScriptedExperts device;
    device.seconds = seconds;
    ExpertExchanger exchanger(model.layers(), device, 128e6);
    for (int32_t i = 0; i < 400; ++i) step(exchanger, {2 + i / 8 % 3, 5 + i / 8 % 3});
    return exchanger.totals().experts;
  };
  const uint64_t cheap = n_exchanged(0), dear = n_exchanged(40e-6);
  CHECK(dear < cheap);
  CHECK(dear > 0);
}

TEST_CASE("expert exchanger: layers take turns if a step has more exchanges than may begin") {
  Model model;
  ScriptedExperts device;
  device.most = 1;
  ExpertExchanger exchanger(model.layers(), device, 0);
  // In both layers, each token uses experts that the device does not have.
  std::array<int, 2> n_changes{};
  for (int32_t i = 0; i < 400; ++i) {
    const std::array<int32_t, 2> chosen = {2 + i / 8 % 3, 5 + i / 8 % 3};
    exchanger.begin_step(decoding());
    for (const int layer : {3, 5})
      exchanger.use(layer, {.n_tokens = 1, .n_used = 2, .experts = chosen.data()});
    if (!device.under_way.empty())
      ++n_changes[device.under_way.front().from ==
                          &model.expert(0, static_cast<size_t>(device.under_way.front().expert))
                      ? 0
                      : 1];
    exchanger.end_step();
  }
  CHECK(n_changes[0] > 10);
  CHECK(n_changes[1] > n_changes[0] / 3);
}

TEST_CASE("expert exchanger: layers that it does not have are ignored") {
  Model model;
  ScriptedExperts device;
  ExpertExchanger exchanger(model.layers(), device, 0);
  const std::array<int32_t, 2> chosen = {6, 7};
  for (int i = 0; i < 40; ++i) {
    exchanger.begin_step(decoding());
    exchanger.use(4, {.n_tokens = 1, .n_used = 2, .experts = chosen.data()});
    exchanger.end_step();
  }
  CHECK(exchanger.totals().experts == 0);
  std::array<uint64_t, 1> bits{};
  CHECK_FALSE(exchanger.resident(4, bits));
}

TEST_CASE("expert exchanger: layers of which the device holds some experts but not all can exchange them") {
  Weights weights;
  weights.layers.resize(5);
  std::vector<ExpertSlabs> slabs;
  MemoryMeter meter;
  const std::array<std::byte, 64> bytes{};
  for (const size_t n_held : {0, 3, 8, 0, 1}) {
    MixtureWeights& mixture = weights.layers[slabs.size()].mixture;
    if (slabs.size() != 3) mixture.experts.resize(kExperts);  // layer 3 has a dense FFN
    for (Expert& expert : mixture.experts) {
      expert.up = {bytes.data(), DType::kF32, 4, 4};
      expert.down = expert.up;
    }
    std::vector<int32_t> held(n_held);
    std::iota(held.begin(), held.end(), 0);
    if (n_held == 0) {
      slabs.emplace_back();
    } else {
      slabs.emplace_back(mixture, held, static_cast<int>(n_held), meter);
    }
  }
  const auto host = [&](int layer) -> std::span<const Expert> {
    return weights.layers[static_cast<size_t>(layer)].mixture.experts;
  };
  const auto layers =
      exchangeable_layers(host, slabs, [](int layer) { return std::vector(kExperts, 1.0 * layer); });
  REQUIRE(layers.size() == 2);
  for (size_t i = 0; i < 2; ++i) {
    const int number = i == 0 ? 1 : 4;
    CHECK(layers[i].layer == number);
    CHECK(layers[i].slabs == &slabs[static_cast<size_t>(number)]);
    CHECK(layers[i].host.data() == weights.layers[static_cast<size_t>(number)].mixture.experts.data());
    CHECK(layers[i].use == std::vector(kExperts, 1.0 * number));
  }
  CHECK(exchangeable_layers(host, slabs, {})[0].use.empty());
  CHECK(exchangeable_layers(host, {}, {}).empty());
}

TEST_CASE("copy allowance: the link is busy for at most three quarters of the time") {
  CopyAllowance allowance;
  allowance.pass(1, 0);  // the link's speed is not known
  CHECK(allowance.n() == 1);
  allowance.pass(1, 0.125);
  CHECK(allowance.n() == 6);
  allowance.spend(6);
  CHECK(allowance.n() == 0);
  for (int i = 0; i < 3; ++i) {
    CHECK(allowance.n() == 0);
    allowance.pass(1, 2);  // a copy takes two tokens, and three with the reserve
  }
  CHECK(allowance.n() == 1);
  for (int i = 0; i < 10; ++i) allowance.pass(1, 0.5);
  CHECK(allowance.n() == 1);  // nothing is saved up
}

}  // namespace hearth::test
