// Implements FloatProducts, predictions, and the gradient descent of NetTrainer.
#include "profiler/predictors/predictor_net.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>

#include "profiler/synthesis/normal_stream.h"

namespace hearth {
namespace {

// Rows of w per piece of work. 64 rows of 4,096 floats are 1 MiB, which stays in the second-level cache while
// rows of x are read. Even if rows are short, such a piece is large enough to justify a hand-off to a thread.
constexpr int64_t kRowsOfPiece = 64;
constexpr int64_t kTransposeTile = 32;

}  // namespace

FloatProducts::FloatProducts(ThreadPool& pool, Isa isa) : pool_(pool), kernels_(matmul_kernels(isa)) {}

void FloatProducts::multiply(const float* x, int64_t n_x, const float* w, int64_t n_w, int64_t n_cols,
                             float* out) {
  const Matrix weight{reinterpret_cast<const std::byte*>(w), DType::kF32, n_w, n_cols};
  const auto kernel = kernels_.multiply[static_cast<size_t>(DType::kF32)];
  pool_.for_each_piece(n_w, kRowsOfPiece, [&](int64_t begin, int64_t end, int) {
    MatmulArgs args;
    args.weight = &weight;
    args.row_begin = begin;
    args.row_end = end;
    args.x = x;
    args.n_tokens = static_cast<int>(n_x);
    args.out = out;
    args.out_stride = n_w;
    kernel(args);
  });
}

void FloatProducts::transpose(const float* in, int64_t n_rows, int64_t n_cols, float* out) {
  pool_.for_each_piece(n_cols, kTransposeTile, [&](int64_t begin, int64_t end, int) {
    for (int64_t first = 0; first < n_rows; first += kTransposeTile) {
      const int64_t last = std::min(first + kTransposeTile, n_rows);
      for (int64_t c = begin; c < end; ++c) {
        for (int64_t r = first; r < last; ++r) out[c * n_rows + r] = in[r * n_cols + c];
      }
    }
  });
}

namespace {

// Adam's usual constants, except kSquaresDecay, which is usually 0.999. With 0.99, the average of the squared
// gradients covers fewer steps, because a training has only thousands of steps.
constexpr float kMeanDecay = 0.9f, kSquaresDecay = 0.99f, kEpsilon = 1e-8f;
constexpr int64_t kGrain = 8192;  // elements per piece, which take some microseconds

size_t size(int64_t rows, int64_t cols) { return static_cast<size_t>(rows) * static_cast<size_t>(cols); }

/// Computes e^x to a relative error of 2e-6, with operations that compilers can vectorize: 2^n times a
/// polynomial of the remainder (Cephes' expf). x is clamped to a range in which the result is a normal float.
inline float fast_exp(float x) {
  x = std::min(std::max(x, -80.0f), 80.0f);
  // Adding 1.5 * 2^23 puts the rounded integer in the low bits.
  const float shifted = x * 1.44269504f + 12582912.0f;
  const float n = shifted - 12582912.0f;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const uint32_t exponent = std::bit_cast<uint32_t>(shifted) << 23;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(p) + exponent);
}

/// Computes the derivatives of the loss with respect to the logits, times `factor`.
void slopes_of_row(const float* logits, const float* weights, int64_t n, float factor, float* slopes) {
  for (int64_t j = 0; j < n; ++j) {
    // The loss's derivative is sigma(z) - w sigma(-z), where sigma(z) = 1 / (1 + e^-z).
    const float z = logits[j];
    const float small = fast_exp(-std::fabs(z));
    const float likely = 1.0f / (1.0f + small);
    const float sigma = z >= 0 ? likely : small * likely;
    slopes[j] = factor * (sigma - weights[j] * (1.0f - sigma));
  }
}

double softplus(double z) { return std::max(z, 0.0) + std::log1p(std::exp(-std::fabs(z))); }

}  // namespace

PredictorNet empty_net(int d_model, int d_ff) { return {d_model, 0, d_ff, {}, {}}; }

void add_units(PredictorNet& net, int rank, uint64_t seed) {
  assert(rank >= net.rank);
  net.in.resize(size(rank, net.d_model));
  // Inputs have a mean square of 1. If the weights of new units have this standard deviation, their products
  // with inputs also have a mean square of 1.
  const float deviation = 1.0f / std::sqrt(static_cast<float>(net.d_model));
  for (int k = net.rank; k < rank; ++k) {
    NormalStream random(mix_keys(seed, static_cast<uint64_t>(k)));
    random.fill(std::span(net.in).subspan(size(k, net.d_model), static_cast<size_t>(net.d_model)), deviation);
  }
  std::vector<float> out(size(net.d_ff, rank), 0.0f);
  for (int64_t j = 0; j < net.d_ff; ++j) {
    std::copy_n(net.out.begin() + j * net.rank, net.rank, out.begin() + j * rank);
  }
  net.out = std::move(out);
  net.rank = rank;
}

void predict(FloatProducts& products, const PredictorView& net, const float* x, int64_t n_tokens,
             std::vector<float>& hidden, std::vector<float>& logits) {
  hidden.resize(size(n_tokens, net.rank));
  logits.resize(size(n_tokens, net.d_ff));
  products.multiply(x, n_tokens, net.in.data(), net.rank, net.d_model, hidden.data());
  for (float& h : hidden) h = std::max(h, 0.0f);
  products.multiply(hidden.data(), n_tokens, net.out.data(), net.d_ff, net.rank, logits.data());
}

NetTrainer::NetTrainer(FloatProducts& products, PredictorNet& net) : products_(products), net_(net) {
  for (std::vector<float>* m : {&moments_.in, &moments_.in_squares}) m->assign(net.in.size(), 0.0f);
  for (std::vector<float>* m : {&moments_.out, &moments_.out_squares}) m->assign(net.out.size(), 0.0f);
}

void NetTrainer::grow() {
  for (std::vector<float>* m : {&moments_.in, &moments_.in_squares}) m->resize(net_.in.size(), 0.0f);
  const int64_t before = static_cast<int64_t>(moments_.out.size()) / net_.d_ff;
  for (std::vector<float>* m : {&moments_.out, &moments_.out_squares}) {
    std::vector<float> grown(net_.out.size(), 0.0f);
    for (int64_t j = 0; j < net_.d_ff; ++j) {
      std::copy_n(m->begin() + j * before, before, grown.begin() + j * net_.rank);
    }
    *m = std::move(grown);
  }
}

double NetTrainer::loss(const float* x, const float* weights, int64_t n_tokens) {
  predict(products_, net_, x, n_tokens, hidden_, logits_);
  double sum = 0;
  for (size_t i = 0; i < logits_.size(); ++i) {
    sum += softplus(double{logits_[i]}) + double{weights[i]} * softplus(-double{logits_[i]});
  }
  return sum / static_cast<double>(n_tokens);
}

void NetTrainer::gradient(const float* x, const float* weights, int64_t n_tokens) {
  const int64_t rank = net_.rank, d_model = net_.d_model, d_ff = net_.d_ff;
  // 1. Compute the logits, and the loss's slope along each logit.
  predict(products_, net_, x, n_tokens, hidden_, logits_);
  slopes_.resize(logits_.size());
  const float factor = 1.0f / static_cast<float>(n_tokens);
  products_.pool().for_each_piece(n_tokens, 1, [&](int64_t t, int64_t, int) {
    slopes_of_row(logits_.data() + t * d_ff, weights + t * d_ff, d_ff, factor, slopes_.data() + t * d_ff);
  });

  // 2. Compute the gradient of the second matrix: slopes^T hidden.
  turned_.resize(slopes_.size());
  hidden_turned_.resize(hidden_.size());
  out_gradient_.resize(net_.out.size());
  products_.transpose(slopes_.data(), n_tokens, d_ff, turned_.data());
  products_.transpose(hidden_.data(), n_tokens, rank, hidden_turned_.data());
  products_.multiply(turned_.data(), d_ff, hidden_turned_.data(), rank, n_tokens, out_gradient_.data());

  // 3. Propagate back through the relu: the hidden slopes are slopes * out for units that were active, and 0
  //    for other units.
  out_turned_.resize(net_.out.size());
  hidden_slopes_.resize(hidden_.size());
  products_.transpose(net_.out.data(), d_ff, rank, out_turned_.data());
  products_.multiply(slopes_.data(), n_tokens, out_turned_.data(), rank, d_ff, hidden_slopes_.data());
  for (size_t i = 0; i < hidden_.size(); ++i) {
    if (!(hidden_[i] > 0)) hidden_slopes_[i] = 0;
  }

  // 4. Compute the gradient of the first matrix: hidden slopes^T x.
  x_turned_.resize(size(n_tokens, d_model));
  in_gradient_.resize(net_.in.size());
  products_.transpose(hidden_slopes_.data(), n_tokens, rank, hidden_turned_.data());
  products_.transpose(x, n_tokens, d_model, x_turned_.data());
  products_.multiply(hidden_turned_.data(), rank, x_turned_.data(), d_model, n_tokens, in_gradient_.data());
}

void NetTrainer::step(const float* x, const float* weights, int64_t n_tokens, float rate) {
  gradient(x, weights, n_tokens);
  ++moments_.n_steps;
  update(net_.in, in_gradient_, moments_.in, moments_.in_squares, rate);
  update(net_.out, out_gradient_, moments_.out, moments_.out_squares, rate);
}

void NetTrainer::update(std::span<float> weights, std::span<const float> gradient, std::span<float> mean,
                        std::span<float> squares, float rate) {
  const double n = static_cast<double>(moments_.n_steps);
  const float mean_share = static_cast<float>(1 / (1 - std::pow(double{kMeanDecay}, n)));
  const float squares_share = static_cast<float>(1 / (1 - std::pow(double{kSquaresDecay}, n)));
  products_.pool().for_each_piece(
      static_cast<int64_t>(weights.size()), kGrain, [&](int64_t begin, int64_t end, int) {
        for (size_t i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
          const float g = gradient[i];
          mean[i] = kMeanDecay * mean[i] + (1 - kMeanDecay) * g;
          squares[i] = kSquaresDecay * squares[i] + (1 - kSquaresDecay) * g * g;
          weights[i] -= rate * (mean[i] * mean_share) / (std::sqrt(squares[i] * squares_share) + kEpsilon);
        }
      });
}

}  // namespace hearth
