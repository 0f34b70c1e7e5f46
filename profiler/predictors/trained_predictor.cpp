// Fits the weights that estimate the input's size (TrainedPredictor::unit), and implements ProposingObserver.
#include "profiler/predictors/trained_predictor.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace hearth {
namespace {

constexpr int64_t kRows = 4096;  // maximum number of tokens in the least-squares fit
// The number added to the diagonal of the least-squares matrix (ridge regression), as a share of the mean
// diagonal element. Because of this ridge, units with equal outputs get equal weights.
constexpr double kRidge = 1e-3;
constexpr float kLeastUnit = 0.0625f;  // lower limit of an estimated input size, as a share of the true size

/// Solves a x = b by Cholesky decomposition, for a symmetric positive definite a [n, n], which is
/// overwritten.
std::vector<double> solve(std::vector<double>& a, std::vector<double> b) {
  const size_t n = b.size();
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      double sum = a[i * n + j];
      for (size_t k = 0; k < j; ++k) sum -= a[i * n + k] * a[j * n + k];
      a[i * n + j] = i == j ? std::sqrt(std::max(sum, 1e-12)) : sum / a[j * n + j];
    }
  }
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < i; ++k) b[i] -= a[i * n + k] * b[k];
    b[i] /= a[i * n + i];
  }
  for (size_t i = n; i-- > 0;) {
    for (size_t k = i + 1; k < n; ++k) b[i] -= a[k * n + i] * b[k];
    b[i] /= a[i * n + i];
  }
  return b;
}

/// Returns the hidden activations [min(n_rows, kRows), rank] for rows that are spread evenly over the
/// recording's first n_rows rows.
std::vector<float> hidden_of(FloatProducts& products, const PredictorView& net, const RecordFile& record,
                             int64_t n_rows) {
  const int64_t n = std::min(n_rows, kRows);
  std::vector<float> x(static_cast<size_t>(n * net.d_model)), hidden(static_cast<size_t>(n * net.rank));
  for (int64_t i = 0; i < n; ++i) record.input(i * n_rows / n, x.data() + i * net.d_model);
  products.multiply(x.data(), n, net.in.data(), net.rank, net.d_model, hidden.data());
  for (float& h : hidden) h = std::max(h, 0.0f);
  return hidden;
}

}  // namespace

TrainedPredictor with_unit(FloatProducts& products, const PredictorView& net, const RecordFile& record,
                           int64_t n_rows) {
  const std::vector<float> hidden = hidden_of(products, net, record, n_rows);
  const size_t rank = static_cast<size_t>(net.rank);
  const int64_t n = static_cast<int64_t>(hidden.size() / rank);

  // Solve (H^T H + ridge) unit = H^T 1, where H are the hidden activations.
  std::vector<float> turned(hidden.size()), squares(rank * rank);
  products.transpose(hidden.data(), n, net.rank, turned.data());
  products.multiply(turned.data(), net.rank, turned.data(), net.rank, n, squares.data());
  std::vector<double> a(squares.begin(), squares.end()), b(rank, 0.0);
  double diagonal = 0;
  for (size_t k = 0; k < rank; ++k) {
    diagonal += a[k * rank + k] / static_cast<double>(rank);
    for (int64_t i = 0; i < n; ++i) b[k] += turned[k * static_cast<size_t>(n) + static_cast<size_t>(i)];
  }
  for (size_t k = 0; k < rank; ++k) a[k * rank + k] += kRidge * diagonal + 1e-9;

  TrainedPredictor predictor;
  for (const double value : solve(a, std::move(b))) predictor.unit.push_back(static_cast<float>(value));
  std::vector<float> scales;
  for (int64_t i = 0; i < n; ++i) scales.push_back(record.scale(i * n_rows / n));
  std::ranges::nth_element(scales, scales.begin() + n / 2);
  const float median = scales[static_cast<size_t>(n / 2)];
  predictor.input_scale = median > 0 ? median : 1.0f;
  predictor.net = net;
  return predictor;
}

void predict_over_unit(FloatProducts& products, const TrainedPredictor& predictor, const float* x,
                       int64_t n_tokens, std::vector<float>& hidden, std::vector<float>& logits) {
  const PredictorView& net = predictor.net;
  predict(products, net, x, n_tokens, hidden, logits);
  products.pool().for_each_piece(n_tokens, 1, [&](int64_t t, int64_t, int) {
    double size = 0, squares = 0;
    for (int k = 0; k < net.rank; ++k) {
      size += double{predictor.unit[static_cast<size_t>(k)]} *
              double{hidden[static_cast<size_t>(t * net.rank + k)]};
    }
    for (int e = 0; e < net.d_model; ++e)
      squares += double{x[t * net.d_model + e]} * double{x[t * net.d_model + e]};
    const double least = kLeastUnit * std::sqrt(squares / net.d_model);
    const float factor = static_cast<float>(1 / std::max({size, least, 1e-30}));
    for (int64_t j = 0; j < net.d_ff; ++j) logits[static_cast<size_t>(t * net.d_ff + j)] *= factor;
  });
}

PredictorNet shifted(const TrainedPredictor& predictor, float threshold) {
  const PredictorView& from = predictor.net;
  PredictorNet net{from.d_model,
                   from.rank,
                   from.d_ff,
                   {from.in.begin(), from.in.end()},
                   {from.out.begin(), from.out.end()}};
  // Scale the first matrix so that typical inputs give logits of the same size as in training. The value of
  // --predictor-threshold then has the same unit as logits in training.
  for (float& weight : net.in) weight /= predictor.input_scale;
  for (int64_t j = 0; j < net.d_ff; ++j) {
    float* row = net.out.data() + j * net.rank;
    for (int k = 0; k < net.rank; ++k) row[k] -= threshold * predictor.unit[static_cast<size_t>(k)];
  }
  return net;
}

void ProposalCounts::add(const ProposalCounts& other) {
  n_neurons += other.n_neurons;
  n_active += other.n_active;
  n_proposed += other.n_proposed;
  n_active_proposed += other.n_active_proposed;
}

void ProposalCounts::look(const float* values, const float* logits, int64_t n, float threshold) {
  n_neurons += n;
  for (int64_t i = 0; i < n; ++i) {
    const bool active = values[i] != 0, proposed = logits[i] >= threshold;
    n_active += active ? 1 : 0;
    n_proposed += proposed ? 1 : 0;
    n_active_proposed += active && proposed ? 1 : 0;
  }
}

ProposingObserver::ProposingObserver(FloatProducts& products, std::span<const TrainedPredictor> predictors)
    : products_(products),
      predictors_(predictors),
      thresholds_(predictors.size(), -std::numeric_limits<float>::infinity()),
      counts_(predictors.size()) {}

void ProposingObserver::use(std::span<const float> thresholds) {
  thresholds_.assign(thresholds.begin(), thresholds.end());
  counts_.assign(predictors_.size(), {});
}

void ProposingObserver::input(int layer, const float* x, int n_tokens) {
  if (std::isinf(thresholds_[static_cast<size_t>(layer)])) return;
  predict_over_unit(products_, predictors_[static_cast<size_t>(layer)], x, n_tokens, hidden_, logits_);
}

void ProposingObserver::values(int layer, float* values, int n_tokens) {
  const float threshold = thresholds_[static_cast<size_t>(layer)];
  if (std::isinf(threshold)) return;
  const int64_t n = int64_t{n_tokens} * predictors_[static_cast<size_t>(layer)].net.d_ff;
  counts_[static_cast<size_t>(layer)].look(values, logits_.data(), n, threshold);
  for (int64_t i = 0; i < n; ++i) {
    if (!(logits_[static_cast<size_t>(i)] >= threshold)) values[i] = 0;
  }
}

}  // namespace hearth
