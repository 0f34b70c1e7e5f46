// Least squares, and the shift. See the header.
#include "profiler/predictors/trained_predictor.h"

#include <algorithm>
#include <cmath>

namespace hearth {
namespace {

constexpr int64_t kRows = 4096;        // least squares over at most as many tokens
constexpr double kRidge = 1e-3;        // of the mean diagonal: units that say the same share the work
constexpr float kLeastUnit = 0.0625f;  // an input's size is never taken for smaller than this share of it

/// Solves a x = b for a symmetric positive definite a [n, n], which is overwritten (Cholesky).
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

/// hidden [n_rows, rank] of rows spread over the recording's first.
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

  // (H^T H + ridge) unit = H^T 1
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
  products.pool().for_each_chunk(n_tokens, 1, [&](int64_t t, int64_t, int) {
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
  // Usual inputs give logits of the size they were trained with, so that a user's threshold means something.
  for (float& weight : net.in) weight /= predictor.input_scale;
  for (int64_t j = 0; j < net.d_ff; ++j) {
    float* row = net.out.data() + j * net.rank;
    for (int k = 0; k < net.rank; ++k) row[k] -= threshold * predictor.unit[static_cast<size_t>(k)];
  }
  return net;
}

}  // namespace hearth
