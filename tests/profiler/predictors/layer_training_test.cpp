// Training a layer: it finds what was planted, grows as far as it must, and gives equal bits however it was
// interrupted and with any number of threads.
#include "profiler/predictors/layer_training.h"

#include <cmath>

#include "profiler/predictors/trained_predictor.h"
#include "tests/profiler/predictors/planted_recording.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace hearth::test {
namespace {

constexpr LayerTrainingOptions kOptions{
    .n_train = 3072, .n_judge = 512, .first_rank = 32, .max_rank = 64, .epochs = 24};

struct Setup {
  explicit Setup(int n_threads = 2)
      : pool(n_threads),
        products(pool, supported_isas().front()),
        record(planted_recording(folder / "r", 3584)) {}
  TempFolder folder;
  ThreadPool pool;
  FloatProducts products;
  RecordFile record;
};

bool same(const PredictorNet& a, const PredictorNet& b) { return a.in == b.in && a.out == b.out; }

LogitCurve curve_of(Setup& setup, const TrainedPredictor& predictor) {
  std::vector<float> hidden;
  return judge(
      [&](const float* x, int64_t n, std::vector<float>& logits) {
        predict_over_unit(setup.products, predictor, x, n, hidden, logits);
      },
      setup.record, setup.record, kOptions.n_train, kOptions.n_judge);
}

}  // namespace

TEST_CASE("layer training: active neurons of unseen tokens are found") {
  Setup setup;
  const ContributionFacts facts = contribution_facts(setup.record, kOptions.n_train);
  CHECK(facts.active > 0.1);
  CHECK(facts.active < 0.5);
  LayerTraining training;
  LayerTrainingOptions options = kOptions;
  options.recall = 0.9;
  options.false_positives = 0.15;
  double last = 0;
  CHECK(train_layer(setup.products, setup.record, options, training, [&](double share) {
    CHECK(share >= last);
    CHECK(share < 1);
    last = share;
    return true;
  }));
  CHECK(training.finished);
  CHECK(training.net.rank == 32);  // the first rank is good enough
  const TrainedPredictor predictor = with_unit(setup.products, training.net, setup.record, kOptions.n_train);
  const LogitCurve curve = curve_of(setup, predictor);
  const int step = curve.highest([](const PredictorShares& shares) { return shares.recall >= 0.9; });
  CHECK(curve.at(step).false_positives < 0.15);
  CHECK(curve.at(step).active == Approx(facts.active).epsilon(0.2));
}

TEST_CASE("layer training: the rank grows while that helps, up to the maximum") {
  Setup setup;
  LayerTrainingOptions options = kOptions;
  options.epochs = 2;
  options.recall = 1;
  options.false_positives = 0.001;
  LayerTraining training;
  CHECK(train_layer(setup.products, setup.record, options, training, [](double) { return true; }));
  CHECK(training.finished);
  CHECK(training.net.rank == 64);
  options.max_rank = 32;
  LayerTraining small;
  CHECK(train_layer(setup.products, setup.record, options, small, [](double) { return true; }));
  CHECK(small.net.rank == 32);
}

TEST_CASE(
    "layer training: interrupted anywhere, and with any number of threads, it ends with the same bits") {
  LayerTrainingOptions options = kOptions;
  options.epochs = 1;
  options.recall = 1;  // so that it also grows
  options.false_positives = 0.001;
  LayerTraining whole;
  {
    Setup setup(1);
    CHECK(train_layer(setup.products, setup.record, options, whole, [](double) { return true; }));
  }
  REQUIRE(whole.net.rank > options.first_rank);
  for (const int pieces : {1, 3, 7}) {
    Setup setup(pieces);
    LayerTraining resumed;
    int n_stops = 0;
    for (bool finished = false; !finished; ++n_stops) {
      int steps = 0;
      finished = train_layer(setup.products, setup.record, options, resumed,
                             [&](double) { return ++steps <= pieces; });
    }
    CHECK(n_stops > 2);
    CHECK(resumed.n_steps == whole.n_steps);
    CHECK(same(resumed.net, whole.net));
  }
}

TEST_CASE("a trained predictor's threshold can be moved into its weights") {
  Setup setup;
  LayerTraining training;
  LayerTrainingOptions options = kOptions;
  options.epochs = 6;
  options.max_rank = 32;
  train_layer(setup.products, setup.record, options, training, [](double) { return true; });
  const TrainedPredictor predictor = with_unit(setup.products, training.net, setup.record, kOptions.n_train);
  const int64_t n = 256;
  std::vector<float> x(static_cast<size_t>(n * 32)), hidden, over_unit, logits;
  for (int64_t i = 0; i < n; ++i) setup.record.input(kOptions.n_train + i, x.data() + i * 32);

  // The unit is near 1 if the input's root mean square is.
  predict(setup.products, predictor.net, x.data(), n, hidden, logits);
  predict_over_unit(setup.products, predictor, x.data(), n, hidden, over_unit);
  int64_t n_near = 0;
  for (size_t i = 0; i < logits.size(); ++i)
    n_near += std::abs(over_unit[i] - logits[i]) < 0.35f * std::abs(logits[i]);
  CHECK(n_near > static_cast<int64_t>(logits.size()) * 9 / 10);

  for (const float threshold : {-2.0f, -0.5f, 0.0f, 1.0f}) {
    // Inputs of any size, as in the model.
    std::vector<float> large = x;
    for (float& value : large) value *= 12;
    const PredictorNet net = shifted(predictor, threshold);
    predict(setup.products, net, large.data(), n, hidden, logits);
    int64_t n_different = 0;
    for (size_t i = 0; i < logits.size(); ++i) n_different += (logits[i] >= 0) != (over_unit[i] >= threshold);
    INFO(threshold);
    CHECK(n_different < static_cast<int64_t>(logits.size()) / 1000);
  }
}

}  // namespace hearth::test
