// Frequencies of rotary embeddings compared with the papers' formulas, written here again in long double, and
// with values that transformers computes.
#include "engine/forward/rope.h"

#include <array>
#include <cmath>

#include "tests/support/catch.h"

namespace hearth::test {
namespace {

constexpr long double kPi = 3.14159265358979323846264338327950288L;

// A value computed in double and rounded to float once differs from the exact one by half a unit of float,
// 2^-25 of it, and a little of double's rounding.
constexpr double kFloatRounding = 6.1e-8;

void check_close(const RopeFrequencies& found, const std::vector<long double>& expected) {
  REQUIRE(found.inv_freq.size() == expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    INFO("pair " << i << ": " << found.inv_freq[i] << " for " << static_cast<double>(expected[i]));
    const long double off = std::abs(found.inv_freq[i] - expected[i]);
    CHECK(off <= kFloatRounding * std::abs(expected[i]));
  }
}

/// theta_i of Su et al. 2021.
long double plain(const RopeSpec& rope, int pair) {
  return 1.0L / std::pow(static_cast<long double>(rope.base), 2.0L * pair / rope.n_rot);
}

RopeSpec spec(int n_rot, double base) {
  RopeSpec rope;
  rope.n_rot = n_rot;
  rope.base = base;
  rope.original_context = 4096;
  return rope;
}

}  // namespace

TEST_CASE("rope: plain frequencies are base^(-2i/n)") {
  const auto [n_rot, base] = GENERATE(std::pair{2, 10000.0}, std::pair{8, 10000.0}, std::pair{64, 500000.0},
                                      std::pair{128, 1e6}, std::pair{6, 1.0}, std::pair{256, 1e12});
  const RopeSpec rope = spec(n_rot, base);
  std::vector<long double> expected;
  for (int i = 0; i < n_rot / 2; ++i) expected.push_back(plain(rope, i));
  const RopeFrequencies found = rope_frequencies(rope, {});
  check_close(found, expected);
  CHECK(found.magnitude == 1.0f);
}

TEST_CASE("rope: divisors divide, one for each pair") {
  const RopeSpec rope = spec(8, 500000.0);
  const std::vector<float> divisors{1.0f, 1.0f, 2.5f, 8.0f};
  std::vector<long double> expected;
  for (int i = 0; i < 4; ++i) expected.push_back(plain(rope, i) / divisors[static_cast<size_t>(i)]);
  check_close(rope_frequencies(rope, divisors), expected);
}

TEST_CASE("rope: linear scaling divides all frequencies, in addition to divisors") {
  RopeSpec rope = spec(16, 10000.0);
  rope.scaling = RopeScaling::kLinear;
  rope.factor = 4.0;
  const std::vector<float> divisors(8, 3.0f);
  std::vector<long double> expected, expected_divided;
  for (int i = 0; i < 8; ++i) {
    expected.push_back(plain(rope, i) / 4);
    expected_divided.push_back(plain(rope, i) / 12);
  }
  const RopeFrequencies found = rope_frequencies(rope, {});
  check_close(found, expected);
  CHECK(found.magnitude == 1.0f);
  check_close(rope_frequencies(rope, divisors), expected_divided);
}

TEST_CASE("rope: yarn keeps fast waves, interpolates slow ones and ramps between") {
  // Peng et al. 2023, section 3.2, with the ramp's ends rounded outward to whole pairs as in the authors'
  // code: a pair turns r = context * theta / (2 pi) times over the original context.
  RopeSpec rope = spec(128, 10000.0);
  rope.scaling = RopeScaling::kYarn;
  rope.factor = 16.0;
  const auto pair_of = [&](long double rotations) {
    return 128 * std::log(4096 / (rotations * 2 * kPi)) / (2 * std::log(10000.0L));
  };
  const long double low = std::floor(pair_of(32)), high = std::ceil(pair_of(1));
  REQUIRE(low > 10);
  REQUIRE(high < 60);
  std::vector<long double> expected;
  for (int i = 0; i < 64; ++i) {
    const long double interpolated = std::min(std::max((i - low) / (high - low), 0.0L), 1.0L);
    expected.push_back(plain(rope, i) * (1 - interpolated) + plain(rope, i) / 16 * interpolated);
  }
  const RopeFrequencies found = rope_frequencies(rope, {});
  check_close(found, expected);
  CHECK(found.inv_freq[0] == 1.0f);                                          // kept
  CHECK(found.inv_freq[63] == static_cast<float>(plain(rope, 63) / 16));     // interpolated
  CHECK(found.magnitude == static_cast<float>(0.1L * std::log(16.0L) + 1));  // its temperature
  rope.attn_factor = 0.5;
  CHECK(rope_frequencies(rope, {}).magnitude == static_cast<float>(0.05L * std::log(16.0L) + 0.5L));
}

TEST_CASE("rope: yarn gives the values of transformers") {
  // transformers 5.23, ROPE_INIT_FUNCTIONS["yarn"], which computes in float; this explains the tolerance.
  struct Row {
    int n_rot;
    double base;
    int context;
    std::vector<float> inv_freq;
  };
  const std::vector<Row> rows = {
      {16,
       1e4,
       2048,
       {1.0f, 0.316227764f, 0.100000001f, 0.025693506f, 0.00624999963f, 0.00138349656f, 0.000250000012f,
        7.90569466e-05f}},
      {32,
       1e6,
       32768,
       {1.0f, 0.421696514f, 0.177827939f, 0.0749894157f, 0.0316227786f, 0.0133352149f, 0.00477990136f,
        0.00165996165f, 0.000549999997f, 0.000168678584f, 4.44569851e-05f, 1.87473561e-05f, 7.90569356e-06f,
        3.33380353e-06f, 1.40585337e-06f, 5.92843435e-07f}},
  };
  for (const Row& row : rows) {
    RopeSpec rope = spec(row.n_rot, row.base);
    rope.scaling = RopeScaling::kYarn;
    rope.factor = 4.0;
    rope.original_context = row.context;
    const RopeFrequencies found = rope_frequencies(rope, {});
    CHECK(found.magnitude == Approx(1.138629436111989).epsilon(1e-7));
    REQUIRE(found.inv_freq.size() == row.inv_freq.size());
    for (size_t i = 0; i < row.inv_freq.size(); ++i) {
      CHECK(found.inv_freq[i] == Approx(row.inv_freq[i]).epsilon(1e-6));
    }
  }
}

TEST_CASE("rope: an attention factor applies without yarn too") {
  RopeSpec rope = spec(8, 10000.0);
  rope.attn_factor = 1.25;
  CHECK(rope_frequencies(rope, {}).magnitude == 1.25f);
}

TEST_CASE("rope: whatever a file's keys may hold, every frequency is finite and none negative") {
  for (const int n_rot : {2, 6, 128, 1024}) {
    for (const double base : {1.0, 1.0000001, 10000.0, 1e12}) {
      for (const double factor : {1e-3, 1.0, 1e6}) {
        for (const int context : {1, 4096, 1 << 24}) {
          for (const auto& [fast, slow] :
               {std::pair{32.0, 1.0}, std::pair{1e-3, 1e6}, std::pair{1e6, 1e-3}}) {
            for (const RopeScaling scaling : {RopeScaling::kNone, RopeScaling::kLinear, RopeScaling::kYarn}) {
              RopeSpec rope = spec(n_rot, base);
              rope.factor = factor;
              rope.original_context = context;
              rope.beta_fast = fast;
              rope.beta_slow = slow;
              rope.scaling = scaling;
              const RopeFrequencies found = rope_frequencies(rope, {});
              bool sound = std::isfinite(found.magnitude) && found.magnitude > 0;
              for (const float freq : found.inv_freq) sound = sound && std::isfinite(freq) && freq >= 0;
              INFO("n_rot " << n_rot << ", base " << base << ", factor " << factor << ", context "
                            << context);
              REQUIRE(sound);
            }
          }
        }
      }
    }
  }
}

}  // namespace hearth::test
