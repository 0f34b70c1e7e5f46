// Planted routing before any model runs: weights of recent tokens, mixes, and the share of reused experts.
#include "profiler/synthesis/planted_routing.h"

#include <algorithm>
#include <numeric>

#include "profiler/synthesis/synth_mixture.h"
#include "tests/support/catch.h"

namespace hearth::test {
namespace {

TEST_CASE("recent tokens weigh about the same, older ones less and less, whatever the rotary embedding") {
  for (const ModelShape& shape : model_shapes()) {
    if (!shape.has_experts()) continue;
    CAPTURE(shape.name);
    const RecentAttention attention = recent_attention(synth_rope(shape));
    const std::vector<double>& w = attention.weights;
    CHECK(attention.first_pair > 0);
    CHECK(attention.first_pair < shape.head_dim() / 2);
    CHECK(std::accumulate(w.begin(), w.end(), 0.0) == Approx(1.0));
    CHECK(w[1] > 0.9 * w[0]);
    CHECK(w[8] < 0.5 * w[0]);
    CHECK(std::accumulate(w.begin() + 64, w.end(), 0.0) < 0.15);
  }
}

TEST_CASE("a mix has the requested correlation from token to token, and length 1") {
  const std::vector<double> w = recent_attention(synth_rope(*find_shape("qwen3-30b-a3b"))).weights;
  NormalStream random(7);
  const auto correlation_of = [&](const RecentMix& mix) {
    std::vector<float> own(20'000);
    random.fill(own, static_cast<float>(mix.own));
    std::vector<double> mixed(own.size() - w.size());
    for (size_t t = 0; t < mixed.size(); ++t) {
      mixed[t] = static_cast<double>(own[t + w.size()]);
      for (size_t i = 0; i < 200; ++i)
        mixed[t] += mix.recent * w[i] * static_cast<double>(own[t + w.size() - i]);
    }
    double squares = 0, products = 0;
    for (size_t t = 1; t < mixed.size(); ++t) {
      squares += mixed[t] * mixed[t];
      products += mixed[t] * mixed[t - 1];
    }
    CHECK(squares / static_cast<double>(mixed.size()) == Approx(1.0).epsilon(0.1));
    return products / squares;
  };
  for (const double correlation : {0.2, 0.5, 0.75}) {
    CHECK(correlation_of(mix_for_correlation(w, correlation)) == Approx(correlation).margin(0.04));
  }
  CHECK(mix_for_correlation(w, 0.0).own == Approx(1.0));
  CHECK(mix_for_correlation(w, 0.0).recent == Approx(0.0).margin(1e-6));
  const RecentMix most = mix_for_correlation(w, 1.0);  // more than the attention permits
  CHECK(most.own > 0.0);
  CHECK(correlation_of(most) > 0.7);
}

TEST_CASE("more reuse needs more correlation, and reuse by chance needs none") {
  const auto experts = plant_directions(firing_probabilities(64, 6.0 / 64, 1.0), 3);
  CHECK(correlation_for_reuse(experts, 6, 0.1) == 0.0);
  const double half = correlation_for_reuse(experts, 6, 0.5), most = correlation_for_reuse(experts, 6, 0.7);
  CHECK(half > 0.6);
  CHECK(half < 0.85);
  CHECK(most > half);
}

}  // namespace
}  // namespace hearth::test
