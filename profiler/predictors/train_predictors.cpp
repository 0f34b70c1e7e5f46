// Implements the stages of training.
#include "profiler/predictors/train_predictors.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <string>

#include "profiler/activity/sequence_run.h"
#include "profiler/bench/perplexity.h"
#include "profiler/predictors/layer_training.h"
#include "profiler/predictors/observing.h"
#include "profiler/predictors/recording.h"

namespace hearth {
namespace {

// The interval between checkpoints. At most this much work can be lost. Writing a checkpoint costs time for a
// hash of its bytes and for a flush to disk.
constexpr std::chrono::seconds kCheckpointEvery{60};
// The number of recorded tokens on which a layer's predictor is judged instead of trained; at most a tenth of
// all tokens.
constexpr int64_t kJudgeTokens = 8192;
// The rough share of the total time after which each stage ends. Used to estimate the remaining time.
constexpr double kRecordingEnds = 0.1, kTrainingEnds = 0.85;

struct Stopped {};

class Run {
 public:
  Run(ModelRuntime& model, const WorkFolder& folder, const TrainingText& text, const TrainOptions& options,
      const std::function<bool(double, std::string_view)>& progress)
      : model_(model),
        folder_(folder),
        text_(text),
        options_(options),
        progress_(progress),
        pool_(options.n_threads),
        products_(pool_, options.isa),
        n_layers_(model.facts().spec.n_layers) {}

  TrainResult run() {
    // 1. Record the neurons' activity.
    record();
    // 2. Train a predictor for each layer.
    train_layers();
    // 3. Choose the thresholds.
    TrainResult result;
    choose(result);
    // 4. Measure the result on a text that was used neither for training nor for choosing.
    measure(result);
    result.nets = std::move(nets_);
    result.predictors = std::move(predictors_);
    return result;
  }

 private:
  void tick(double share, std::string_view what) const {
    if (progress_ && !progress_(share, what)) throw Stopped{};
  }

  RecordFile recording(int layer) const {
    return {record_path(folder_.path(), layer), record_shape(model_.facts().spec, layer), n_rows_};
  }

  void record() {
    n_rows_ = record_activity(
        model_, {.folder = folder_.path(), .text = text_.train, .n_context = options_.n_context},
        [&](double share) { tick(kRecordingEnds * share, "recording"); });
    n_judge_ = std::min(kJudgeTokens, n_rows_ / 10);
    n_train_ = n_rows_ - n_judge_;
  }

  void train_layers() {
    const ModelSpec& spec = model_.facts().spec;
    std::vector<double> active;
    for (int l = 0; l < n_layers_; ++l) active.push_back(contribution_facts(recording(l), n_train_).active);
    const std::vector<RankRange> ranks =
        rank_ranges(active, spec.d_model, spec.d_ff, options_.size_budget * n_model_weights());
    for (int l = 0; l < n_layers_; ++l) train(l, ranks[static_cast<size_t>(l)]);
  }

  double n_model_weights() const {
    double n = 0;
    for (const TensorInfo& tensor : model_.facts().file.tensors()) {
      if (tensor.name.find(".fc1.") != std::string_view::npos ||
          tensor.name.find(".fc2.") != std::string_view::npos) {
        continue;
      }
      n += static_cast<double>(tensor.shape[0]) * static_cast<double>(tensor.shape[1]);
    }
    return n;
  }

  void train(int layer, const RankRange& ranks) {
    const ModelSpec& spec = model_.facts().spec;
    LayerTraining training = folder_.load(layer, spec.d_model, spec.d_ff).value_or(LayerTraining{});
    const RecordFile record = recording(layer);
    if (!training.finished) {
      const LayerTrainingOptions options{.n_train = n_train_,
                                         .n_judge = n_judge_,
                                         .first_rank = ranks.first,
                                         .max_rank = ranks.most,
                                         .epochs = options_.epochs,
                                         .recall = options_.recall,
                                         .false_positives = options_.false_positives,
                                         .seed = options_.seed + static_cast<uint64_t>(layer)};
      bool stopped = false;
      const std::string what = "layer " + std::to_string(layer + 1) + " of " + std::to_string(n_layers_);
      for (bool finished = false; !finished && !stopped;) {
        const auto begin = std::chrono::steady_clock::now();
        finished = train_layer(products_, record, options, training, [&](double share) {
          const double layers = (layer + share) / n_layers_;
          stopped = progress_ && !progress_(kRecordingEnds + (kTrainingEnds - kRecordingEnds) * layers, what);
          return !stopped && std::chrono::steady_clock::now() - begin < kCheckpointEvery;
        });
        folder_.save(layer, training);
      }
      if (stopped) throw Stopped{};
    }
    nets_.push_back(folder_.map(layer, spec.d_model, spec.d_ff));
    predictors_.push_back(with_unit(products_, nets_.back().net, record, n_train_));
  }

  LogitCurve curve_of(int layer, int input_layer) {
    const TrainedPredictor& predictor = predictors_[static_cast<size_t>(layer)];
    std::vector<float> hidden;
    return judge(
        [&](const float* x, int64_t n, std::vector<float>& logits) {
          predict_over_unit(products_, predictor, x, n, hidden, logits);
        },
        recording(input_layer), recording(layer), n_train_, n_judge_);
  }

  void choose(TrainResult& result) {
    std::vector<LogitCurve> curves;
    for (int l = 0; l < n_layers_; ++l) curves.push_back(curve_of(l, l));
    ProposingObserver observer(products_, predictors_);
    const Observing observing(model_, observer);
    const ThresholdInputs inputs{.text = text_.tune,
                                 .n_context = options_.n_context,
                                 .bos = text_.bos,
                                 .max_rise = options_.max_rise,
                                 .recall = options_.recall,
                                 .false_positives = options_.false_positives};
    result.choice = choose_thresholds(model_, observer, curves, inputs, [&](double share) {
      tick(kTrainingEnds + (0.95 - kTrainingEnds) * share, "how much can be skipped");
    });
    result.n_recorded = n_rows_;
    result.recorded_bytes = record_bytes(model_.facts().spec, n_rows_);
    for (int l = 0; l < n_layers_; ++l) {
      LayerResult layer;
      layer.rank = predictors_[static_cast<size_t>(l)].net.rank;
      layer.threshold = result.choice.thresholds[static_cast<size_t>(l)];
      if (l > 0) {
        layer.ahead = curve_of(l, l - 1).at(step_of(layer.threshold));
      }
      result.layers.push_back(layer);
    }
  }

  static int step_of(float threshold) {
    return static_cast<int>(std::lround(threshold * 16)) + LogitCurve::kSteps / 2;
  }

  double held_out_perplexity(ProposingObserver& observer, std::span<const float> thresholds, double begin) {
    observer.use(thresholds);
    const auto shown = [&](const PerplexityResult& so_far, int n_windows) {
      tick(begin + 0.025 * so_far.n_windows / n_windows, "the held-out text");
    };
    return measure_perplexity(model_, text_.held_out, options_.n_context, text_.bos, shown).perplexity;
  }

  void measure(TrainResult& result) {
    ProposingObserver observer(products_, predictors_);
    const Observing observing(model_, observer);
    std::vector<float> thresholds(result.layers.size(), -std::numeric_limits<float>::infinity());
    result.held_out.exact = held_out_perplexity(observer, thresholds, 0.95);
    for (size_t l = 0; l < thresholds.size(); ++l) thresholds[l] = result.layers[l].threshold;
    result.held_out.predicted = held_out_perplexity(observer, thresholds, 0.975);
    for (size_t l = 0; l < thresholds.size(); ++l) result.layers[l].held_out = observer.counts()[l];
  }

  ModelRuntime& model_;
  const WorkFolder& folder_;
  const TrainingText& text_;
  const TrainOptions& options_;
  const std::function<bool(double, std::string_view)>& progress_;
  ThreadPool pool_;
  FloatProducts products_;
  int n_layers_;
  int64_t n_rows_ = 0, n_train_ = 0, n_judge_ = 0;
  std::vector<MappedNet> nets_;               // [n_layers]
  std::vector<TrainedPredictor> predictors_;  // [n_layers], for nets_
};

int multiple_of_32(double n) { return std::max(32, static_cast<int>(n / 32) * 32); }

}  // namespace

std::vector<RankRange> rank_ranges(std::span<const double> active, int d_model, int d_ff, double n_weights) {
  double sum = 0;
  for (const double share : active) sum += std::max(share, 1e-3);
  const double n_units = n_weights / (d_model + d_ff);
  std::vector<RankRange> ranges;
  for (const double share : active) {
    RankRange range;
    range.most = std::min(multiple_of_32(n_units * std::max(share, 1e-3) / sum), d_ff);
    range.first = std::min(multiple_of_32(d_model * share), range.most);
    ranges.push_back(range);
  }
  return ranges;
}

PredictorSource TrainResult::source() const {
  PredictorSource source;
  for (const LayerResult& layer : layers) source.ranks.push_back(layer.rank);
  source.make = [this](int layer) {
    const size_t l = static_cast<size_t>(layer);
    return shifted(predictors[l], layers[l].threshold);
  };
  return source;
}

std::optional<TrainResult> train_predictors(ModelRuntime& model, const WorkFolder& folder,
                                            const TrainingText& text, const TrainOptions& options,
                                            const std::function<bool(double, std::string_view)>& progress) {
  try {
    return Run(model, folder, text, options, progress).run();
  } catch (const Stopped&) {
    return std::nullopt;
  }
}

}  // namespace hearth
