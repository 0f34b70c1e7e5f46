// Forms batches, and sets the learning rate and the predictor's growth.
#include "profiler/predictors/layer_training.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "profiler/synthesis/normal_stream.h"

namespace hearth {
namespace {

// Tokens per training step: enough to amortize reading the weights, and few enough for some hundred steps per
// epoch.
constexpr int64_t kBatch = 256;
// The loss of missing an active neuron, relative to the loss of proposing a neuron, is about kMissPrice on
// average. The share kContributionShare of it is proportional to the square of the neuron's contribution, up
// to kMostContribution times the mean square; the rest is constant. The square is the squared error of the
// output if the neuron is missed. No other values were tried, because thresholds are chosen afterward, by the
// measured cost of a layer's misses.
constexpr double kMissPrice = 3, kContributionShare = 0.8, kMostContribution = 30;
constexpr double kGrowth = 1.5;  // factor by which the rank grows
// Add more units only if the previous addition reduced the missed contributions to at most this share.
constexpr double kWorthMore = 0.97;
constexpr float kLastRate = 0.01f;

/// The loss weight of each contribution code.
std::array<float, 256> loss_weights(const ContributionFacts& facts) {
  std::array<float, 256> weights{};
  for (int code = 1; code < 256; ++code) {
    const double c = contribution_of(static_cast<uint8_t>(code));
    const double energy =
        facts.mean_square > 0 ? std::min(c * c / facts.mean_square, kMostContribution) : 1.0;
    weights[static_cast<size_t>(code)] =
        static_cast<float>(kMissPrice * (1 - kContributionShare + kContributionShare * energy));
  }
  return weights;
}

int next_rank(int rank, int most) {
  const int grown = static_cast<int>(std::ceil(rank * kGrowth / 32)) * 32;
  return std::min(grown, most);
}

class Trainer {
 public:
  Trainer(FloatProducts& products, const RecordFile& record, const LayerTrainingOptions& options,
          LayerTraining& state)
      : products_(products),
        record_(record),
        options_(options),
        state_(state),
        weights_(loss_weights(contribution_facts(record, options.n_train))),
        d_model_(record.shape().d_model),
        d_ff_(record.shape().d_ff),
        x_(static_cast<size_t>(kBatch * d_model_)),
        y_(static_cast<size_t>(kBatch * d_ff_)) {}

  bool run(const std::function<bool(double)>& tick) {
    if (state_.net.rank == 0) {
      state_.net = empty_net(static_cast<int>(d_model_), static_cast<int>(d_ff_));
      add_units(state_.net, options_.first_rank, options_.seed);
    }
    NetTrainer trainer(products_, state_.net);
    if (!state_.moments.in.empty()) trainer.set_moments(std::move(state_.moments));
    while (!state_.finished) {
      while (state_.n_steps < steps_of(state_.net.rank)) {
        const bool goes_on = tick(share_done());
        if (!goes_on) {
          state_.moments = trainer.moments();
          return false;
        }
        fill_batch();
        const float left =
            1 - static_cast<float>(state_.n_steps) / static_cast<float>(steps_of(state_.net.rank));
        trainer.step(x_.data(), y_.data(), kBatch, rate() * std::max(left, kLastRate));
        ++state_.n_steps;
      }
      grow_or_finish(trainer);
    }
    return true;
  }

 private:
  bool first_rank() const { return state_.net.rank == options_.first_rank; }
  float rate() const { return first_rank() ? options_.rate : options_.rate / 2; }

  int64_t steps_of(int rank) const {
    const double epochs = rank == options_.first_rank ? options_.epochs : options_.epochs / 2;
    return std::max<int64_t>(1, std::llround(epochs * static_cast<double>(options_.n_train) / kBatch));
  }

  /// Returns the completed share of the training, assuming that the net grows to its largest rank. The time
  /// of a training step is assumed to be proportional to the net's rank in this step.
  double share_done() const {
    double done = 0, all = 0;
    for (int rank = options_.first_rank;; rank = next_rank(rank, options_.max_rank)) {
      const double steps = static_cast<double>(steps_of(rank)) * rank;
      all += steps;
      if (rank < state_.net.rank) done += steps;
      if (rank == state_.net.rank) done += static_cast<double>(state_.n_steps) * rank;
      if (rank >= options_.max_rank) break;
    }
    return done / all;
  }

  void fill_batch() {
    const uint64_t key = mix_keys(mix_keys(options_.seed, static_cast<uint64_t>(state_.net.rank)),
                                  static_cast<uint64_t>(state_.n_steps));
    products_.pool().for_each_piece(kBatch, 8, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const uint64_t draw = mix_keys(key, static_cast<uint64_t>(i));
        const int64_t row = static_cast<int64_t>(draw % static_cast<uint64_t>(options_.n_train));
        record_.input(row, x_.data() + i * d_model_);
        const uint8_t* codes = record_.codes(row);
        float* y = y_.data() + i * d_ff_;
        for (int64_t j = 0; j < d_ff_; ++j) y[j] = weights_[codes[j]];
      }
    });
  }

  void grow_or_finish(NetTrainer& trainer) {
    std::vector<float> hidden;
    const auto logits_of = [&](const float* x, int64_t n, std::vector<float>& logits) {
      predict(products_, state_.net, x, n, hidden, logits);
    };
    const LogitCurve curve = judge(logits_of, record_, record_, options_.n_train, options_.n_judge);
    const int step =
        curve.highest([&](const PredictorShares& shares) { return shares.recall >= options_.recall; });
    const bool good = curve.at(step).false_positives <= options_.false_positives;
    // Find the highest threshold that uses up the allowance for false positives.
    const int wide = curve.highest(
        [&](const PredictorShares& shares) { return shares.false_positives >= options_.false_positives; });
    const double missed = curve.at(wide).missed;
    const bool worth_more = missed <= kWorthMore * state_.last_missed;
    if (good || !worth_more || state_.net.rank >= options_.max_rank) {
      state_.finished = true;
      state_.moments = {};
      return;
    }
    state_.last_missed = missed;
    add_units(state_.net, next_rank(state_.net.rank, options_.max_rank), options_.seed);
    trainer.grow();
    state_.n_steps = 0;
  }

  FloatProducts& products_;
  const RecordFile& record_;
  const LayerTrainingOptions& options_;
  LayerTraining& state_;
  const std::array<float, 256> weights_;
  int64_t d_model_, d_ff_;
  std::vector<float> x_, y_;  // for a batch: inputs, loss weights
};

}  // namespace

ContributionFacts contribution_facts(const RecordFile& record, int64_t n_rows) {
  constexpr int64_t kRows = 2048;  // enough rows for means over about a million active neurons
  const int64_t stride = std::max<int64_t>(1, n_rows / kRows);
  std::array<int64_t, 256> counts{};
  int64_t n_looked = 0;
  for (int64_t row = 0; row < n_rows; row += stride, ++n_looked) {
    const uint8_t* codes = record.codes(row);
    for (int j = 0; j < record.shape().d_ff; ++j) ++counts[codes[j]];
  }
  double n_active = 0, squares = 0;
  for (int code = 1; code < 256; ++code) {
    const double c = contribution_of(static_cast<uint8_t>(code));
    const double n = static_cast<double>(counts[static_cast<size_t>(code)]);
    n_active += n;
    squares += n * c * c;
  }
  return {.active = n_active / (static_cast<double>(n_looked) * record.shape().d_ff),
          .mean_square = n_active > 0 ? squares / n_active : 0};
}

LogitCurve judge(const Predict& predict, const RecordFile& inputs, const RecordFile& neurons, int64_t begin,
                 int64_t n_rows) {
  LogitCurve curve;
  const int64_t d_model = inputs.shape().d_model, d_ff = neurons.shape().d_ff;
  std::vector<float> x(static_cast<size_t>(kBatch * d_model)), logits;
  for (int64_t first = begin; first < begin + n_rows; first += kBatch) {
    const int64_t n = std::min(kBatch, begin + n_rows - first);
    for (int64_t i = 0; i < n; ++i) inputs.input(first + i, x.data() + i * d_model);
    predict(x.data(), n, logits);
    for (int64_t i = 0; i < n; ++i) {
      const uint8_t* codes = neurons.codes(first + i);
      for (int64_t j = 0; j < d_ff; ++j) {
        curve.add(logits[static_cast<size_t>(i * d_ff + j)], contribution_of(codes[j]));
      }
    }
  }
  return curve;
}

bool train_layer(FloatProducts& products, const RecordFile& record, const LayerTrainingOptions& options,
                 LayerTraining& training, const std::function<bool(double)>& tick) {
  return Trainer(products, record, options, training).run(tick);
}

}  // namespace hearth
