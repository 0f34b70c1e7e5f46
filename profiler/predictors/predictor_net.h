// Defines a layer's predictor, logits = out relu(in x) without biases, and the gradient descent that trains
// it.
//
// The formula is PowerInfer's (engine/forward/neuron_predictor.cpp, predict()). Training uses Adam (Kingma,
// Ba 2014) and a weighted binary cross-entropy. The loss is a sum over neurons and tokens, in which w >= 0
// measures how much the neuron contributed:
//   loss += softplus(logit) + w softplus(-logit)
// The first term is the price of proposing a neuron, whether or not it is active; the second is the cost of
// missing it. w is 0 for inactive neurons. The best logit is the logarithm of the mean of w given the input.
//
// Everything is float32. Every element of a product is a sum whose order depends only on the row length
// (kernels/cpu/isa/matmul_kernels.h), so a seed gives the same bits with any number of threads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/isa/matmul_kernels.h"
#include "kernels/cpu/threads/thread_pool.h"

namespace hearth {

class FloatProducts {
 public:
  /// `pool` must outlive this object. REQUIRES: this machine supports `isa`.
  FloatProducts(ThreadPool& pool, Isa isa);

  /// Computes out [n_x, n_w] = x [n_x, n_cols] * w [n_w, n_cols]^T.
  void multiply(const float* x, int64_t n_x, const float* w, int64_t n_w, int64_t n_cols, float* out);

  /// out [n_cols, n_rows] = in [n_rows, n_cols]^T.
  void transpose(const float* in, int64_t n_rows, int64_t n_cols, float* out);

  ThreadPool& pool() { return pool_; }

 private:
  ThreadPool& pool_;
  const MatmulKernels& kernels_;
};

struct PredictorNet {
  int d_model = 0;
  int rank = 0;
  int d_ff = 0;
  std::vector<float> in;   // [rank, d_model]
  std::vector<float> out;  // [d_ff, rank]
};

/// A view of a net's weights, which are stored in a PredictorNet or in a mapped file.
struct PredictorView {
  PredictorView() = default;
  PredictorView(const PredictorNet& net)  // NOLINT(google-explicit-constructor)
      : d_model(net.d_model), rank(net.rank), d_ff(net.d_ff), in(net.in), out(net.out) {}

  int d_model = 0;
  int rank = 0;
  int d_ff = 0;
  std::span<const float> in;   // [rank, d_model]
  std::span<const float> out;  // [d_ff, rank]
};

/// A net without units.
PredictorNet empty_net(int d_model, int d_ff);

/// Adds units until the net has `rank` units. The new input weights are random (from `seed`), and the new
/// output weights are zero.
void add_units(PredictorNet& net, int rank, uint64_t seed);

/// Computes hidden [n_tokens, rank] and logits [n_tokens, d_ff] from inputs x [n_tokens, d_model]. Resizes
/// the vectors.
void predict(FloatProducts& products, const PredictorView& net, const float* x, int64_t n_tokens,
             std::vector<float>& hidden, std::vector<float>& logits);

/// Trains one net. Needs memory for five copies of the net and a few batches.
class NetTrainer {
 public:
  /// The state, besides the net, that the next training step depends on. Saved in checkpoints.
  struct Moments {
    std::vector<float> in, in_squares, out, out_squares;  // shapes as in the net
    int64_t n_steps = 0;                                  // training steps since the moments were zero
  };

  /// `products` and `net` must outlive this object. Moments begin at zero.
  NetTrainer(FloatProducts& products, PredictorNet& net);

  /// Makes one training step on a batch: x [n_tokens, d_model], weights [n_tokens, d_ff].
  void step(const float* x, const float* weights, int64_t n_tokens, float rate);

  /// Returns the mean loss per token. For tests and inspection, because it takes longer than a training step.
  double loss(const float* x, const float* weights, int64_t n_tokens);

  /// Computes the loss's gradient. in_gradient() and out_gradient() return it until the next call of step()
  /// or gradient().
  void gradient(const float* x, const float* weights, int64_t n_tokens);
  std::span<const float> in_gradient() const { return in_gradient_; }
  std::span<const float> out_gradient() const { return out_gradient_; }

  /// Adds zero moments for the units that add_units() has just added.
  void grow();

  const Moments& moments() const { return moments_; }
  /// Continues with moments from a checkpoint. REQUIRES: the moments have this net's size.
  void set_moments(Moments moments) { moments_ = std::move(moments); }

 private:
  void update(std::span<float> weights, std::span<const float> gradient, std::span<float> mean,
              std::span<float> squares, float rate);

  FloatProducts& products_;
  PredictorNet& net_;
  Moments moments_;
  std::vector<float> in_gradient_, out_gradient_;
  std::vector<float> hidden_, logits_, slopes_;           // for a batch; slopes [n_tokens, d_ff]
  std::vector<float> turned_, hidden_turned_, x_turned_;  // transposed
  std::vector<float> out_turned_, hidden_slopes_;
};

}  // namespace hearth
