// Tests which observers learn a step's neurons, from which list, and when.
#include "engine/forward/ffn_observers.h"

#include <chrono>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "tests/engine/forward/backend_device.h"
#include "tests/support/catch.h"

namespace hearth::test {
namespace {

constexpr int kLayers = 3, kNeurons = 5;

ModelSpec observed_spec(PredictorInput predictor_input = PredictorInput::kResidual) {
  ModelSpec spec;
  spec.n_layers = kLayers;
  spec.d_ff = kNeurons;
  spec.arch.predictor_input = predictor_input;
  return spec;
}

/// A step that decodes the token at this position.
Batch one_token(int position = 0) {
  Batch batch;
  batch.tokens = {0};
  batch.slots = {0};
  batch.positions = {position};
  batch.logit_rows = {0};
  return batch;
}

ActivityCounter counter_of(bool experts = false) {
  return ActivityCounter({.n_layers = kLayers, .d_ff = kNeurons, .experts = experts}, {});
}

void write(const ActiveNeurons& found, uint64_t bits) {
  found.bits[0] = bits;
  for (int j = 0; j < kNeurons; ++j) found.values[j] = 1.0f;
}

/// Records its calls.
class Calls final : public NeuronObserver {
 public:
  void input(int layer, const float* x, int n_tokens) override {
    text += "input " + std::to_string(layer) + " " + std::to_string(x[0]).substr(0, 1) + " of " +
            std::to_string(n_tokens) + "; ";
  }
  void values(int layer, float* values, int) override {
    text += "values " + std::to_string(layer) + "; ";
    values[1] = 0;
  }
  std::string text;
};

TEST_CASE("observers: neurons of the CPU are reported at once, those of a device at the end of the step") {
  const ModelSpec spec = observed_spec();
  FfnObservers observers(spec);
  ActivityCounter counter = counter_of();
  observers.count_activity(&counter);
  CpuBackend cpu(1, supported_isas().front());
  BackendDevice device(cpu);
  std::vector<int> calls;
  device.on_found = [&](int call, const ActiveNeurons& to) {
    calls.push_back(call);
    write(to, uint64_t{2} << call);
  };
  for (int position = 0; position < 2; ++position) {
    const Batch batch = one_token(position);
    const ActivityCounter::StepScope step(&counter, batch);
    observers.begin_step();
    REQUIRE(observers.counts_step());
    observers.report_found(0, /*on_device=*/true);
    write(*observers.found(), 1);
    observers.report_found(1, /*on_device=*/false);
    observers.report_found(2, /*on_device=*/true);
    CHECK(calls.size() == 2 * static_cast<size_t>(position));
    observers.end_step(&device);
  }
  CHECK(calls == std::vector<int>{0, 1, 0, 1});
  const ActivityCounts counts = counter.take();
  CHECK(counts.n_tokens == 2);
  CHECK(counts.active == std::vector<uint32_t>{0, 2, 0, 0, 0,    // the device's call 0
                                               2, 0, 0, 0, 0,    // the CPU's
                                               0, 0, 2, 0, 0});  // the device's call 1
}

TEST_CASE("observers: a step that is counted and shown is written to the counter's list and told to both") {
  const ModelSpec spec = observed_spec();
  FfnObservers observers(spec);
  ActivityCounter counter = counter_of();
  LiveActivity live({.n_layers = kLayers, .n_units = kNeurons, .max_tokens = 1},
                    std::chrono::milliseconds(0));
  const LiveActivity::Watch watch(live);
  const Batch batch = one_token();
  observers.count_activity(&counter);
  observers.show_activity(&live);
  CHECK_FALSE(observers.counts_step());
  const auto report = [&](uint64_t bits) {
    write(*observers.found(), bits);
    observers.report_found(0, false);
  };
  {
    const LiveActivity::StepScope shown(&live, batch);
    CHECK(observers.found() == live.found());
    const ActivityCounter::StepScope counted(&counter, batch);
    CHECK(observers.found() == counter.found());
    report(3);
  }
  LiveStep seen;
  REQUIRE(live.latest(seen));
  CHECK(seen.levels[0] == LiveActivity::kFullLevel);
  CHECK(seen.levels[1] == LiveActivity::kFullLevel);
  CHECK(seen.levels[2] == 0);
  {
    const LiveActivity::StepScope shown(&live, batch);
    report(4);
  }
  REQUIRE(live.latest(seen));
  CHECK(seen.levels[0] == 0);
  CHECK(seen.levels[2] == LiveActivity::kFullLevel);
  observers.show_activity(nullptr);
  observers.count_activity(nullptr);
  CHECK(observers.found() == nullptr);
  const ActivityCounts counts = counter.take();
  CHECK(counts.n_tokens == 1);
  CHECK(counts.active[0] == 1);
  CHECK(counts.active[2] == 0);
}

TEST_CASE("observers: a counter of experts gets choices and no neurons") {
  const ModelSpec spec = observed_spec();
  FfnObservers observers(spec);
  ActivityCounter counter = counter_of(/*experts=*/true);
  const std::vector<int32_t> experts{4, 1};
  const std::vector<float> weights{0.75f, 0.25f};
  const ExpertChoice choice{.n_tokens = 1, .n_used = 2, .experts = experts.data(), .weights = weights.data()};
  observers.report_choice(0, choice);  // nobody is there
  observers.count_activity(&counter);
  observers.report_choice(0, choice);  // between steps
  const Batch batch = one_token();
  {
    const ActivityCounter::StepScope step(&counter, batch);
    CHECK_FALSE(observers.counts_step());
    observers.report_choice(1, choice);
  }
  const ActivityCounts counts = counter.take();
  CHECK(counts.active == std::vector<uint32_t>{0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0});
}

TEST_CASE("observers: the observer of neurons gets the input that predictors read, and may clear values") {
  const bool layer_input = GENERATE(true, false);
  const ModelSpec spec = observed_spec(layer_input ? PredictorInput::kLayerInput : PredictorInput::kResidual);
  FfnObservers observers(spec);
  const std::vector<float> before{7}, after{8};
  std::vector<float> values{1, 2};
  const auto run_layer = [&] {
    observers.before_attention(2, before.data(), 1);
    observers.before_ffn(2, after.data(), 1);
    observers.report_neurons(2, values.data(), 1);
  };
  run_layer();
  CHECK(values == std::vector<float>{1, 2});
  Calls calls;
  observers.observe_neurons(&calls);
  CHECK(observers.observes_neurons());
  run_layer();
  CHECK(values == std::vector<float>{1, 0});
  CHECK(calls.text == std::string("input 2 ") + (layer_input ? "7" : "8") + " of 1; values 2; ");
  observers.observe_neurons(nullptr);
  run_layer();
  CHECK(calls.text.size() == std::string("input 2 7 of 1; values 2; ").size());
}

}  // namespace
}  // namespace hearth::test
