// Curves of activity: laws have the density and concentration that they state, and counts give their own.
#include "engine/placement/activity_curve.h"

#include <array>

#include "profiler/plan/planned_model.h"
#include "tests/support/catch.h"

namespace hearth::testing {
namespace {

TEST_CASE("an activity law has the requested density and concentration") {
  for (const ActivityLaw& law :
       {ActivityLaw{0.04, 0.26, 0.8, ""}, ActivityLaw{0.18, 0.43, 0.8, ""}, ActivityLaw{0.3, 0.43, 0.8, ""},
        ActivityLaw{0.05, 0.26, 0.8, ""}, ActivityLaw{0.1, 0.2, 0.5, ""}}) {
    for (const int64_t n : {1000, 28672}) {
      INFO(law.active << " of " << n);
      const ActivityCurve curve = curve_of(law, n);
      CHECK(curve.n_neurons() == n);
      CHECK(curve.active() / static_cast<double>(n) == Approx(law.active).epsilon(1e-3));
      const auto top = static_cast<int64_t>(law.top * static_cast<double>(n));
      CHECK(curve.caught(top) == Approx(law.of_activations).epsilon(0.01));
      CHECK(curve.active(1) <= 0.98);
      CHECK(curve.active(n) - curve.active(n - 1) <= curve.active(1));
    }
  }
}

TEST_CASE("every sparse shape has an activity law, and others have none") {
  for (const ModelShape& shape : model_shapes()) {
    INFO(shape.name);
    if (shape.has_experts() || shape.d_head_window > 0) continue;  // the latter cannot be planned
    if (!shape.has_zero_neurons()) {
      CHECK_FALSE(known_law(model_of_shape(shape, DType::kQ4_0, "").spec));
      continue;
    }
    const PlannedModel model = model_of_shape(shape, DType::kQ4_0, "");
    const std::optional<ActivityLaw> law = known_law(model.spec);
    REQUIRE(law);
    CHECK(law_activity(*law, model.spec).active_share() == Approx(law->active).epsilon(1e-3));
    CHECK_FALSE(law->source.empty());
    CHECK_FALSE(
        known_law(model_of_shape(shape, DType::kQ4_0, shape.architecture == "opt" ? "gelu" : "silu").spec));
  }
}

TEST_CASE("counts become shares of tokens, the most active first") {
  const ActivityProfile profile{{{10, 40, 0, 20}, {0, 0, 0, 0}}};
  const ModelActivity counted = counted_activity(profile, 40, 0, "a text");
  CHECK(counted.hottest[0] == std::vector<int32_t>{1, 3, 0, 2});
  CHECK(counted.of(0).active(1) == 1.0);
  CHECK(counted.of(0).active() == Approx(1.75));
  CHECK(counted.of(0).caught(2) == Approx(1.5 / 1.75));
  CHECK(counted.of(1).active() == 0);
  CHECK(counted.of(1).caught(4) == 0);
  CHECK(counted.active_share() == Approx(1.75 / 8));
}

TEST_CASE("the shares of a layer's units are those that were counted, and unknown without counts") {
  constexpr std::array<uint32_t, 4> kCounts = {1, 7, 0, 4};
  ActivityCounts counts(2, 4, true);
  counts.n_tokens = 10;
  for (int e = 0; e < 4; ++e) counts.active[counts.index(1, e)] = kCounts[static_cast<size_t>(e)];
  const std::vector<double> shares = counted_activity(counts, "").shares_of(1);
  REQUIRE(shares.size() == 4);
  for (size_t e = 0; e < 4; ++e) CHECK(shares[e] == Approx(kCounts[e] / 10.0).margin(1e-9));
  const ModelSpec mixture = model_of_shape(*find_shape("tiny-moe"), DType::kQ4_0, "").spec;
  CHECK(exchanged_expert_activity(mixture).shares_of(0).empty());
}

TEST_CASE("if experts are exchanged, a quarter of them get half of the choices, unless all are chosen") {
  const PlannedModel model = model_of_shape(*find_shape("qwen3-30b-a3b"), DType::kQ4_0, "");
  const ModelActivity activity = exchanged_expert_activity(model.spec);
  const ActivityCurve& curve = activity.of(0);
  CHECK(curve.n_neurons() == 128);
  CHECK(curve.active() == Approx(8).epsilon(1e-3));
  CHECK(curve.caught(32) == Approx(0.5).epsilon(0.01));
  const ModelSpec few = model_of_shape(*find_shape("mixtral-8x7b"), DType::kQ4_0, "").spec;
  CHECK(exchanged_expert_activity(few).of(0).caught(2) == Approx(0.25));
  ModelSpec all = model.spec;
  all.mixture.n_used = 128;
  CHECK(exchanged_expert_activity(all).of(0).caught(32) == Approx(0.25));
}

TEST_CASE("counts without a number of tokens are scaled to a density") {
  ActivityProfile profile;
  profile.counts.push_back({10, 40, 5, 20});
  const ModelActivity counted = counted_activity(profile, 0, 0.3, "PowerInfer's counts");
  CHECK(counted.active_share() == Approx(0.3));
  CHECK(counted.of(0).caught(1) == Approx(40.0 / 75));
}

}  // namespace
}  // namespace hearth::testing
