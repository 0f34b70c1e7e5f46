// The generator of weights: a normal distribution's moments and tails, and independent streams.
#include "profiler/synthesis/normal_stream.h"

#include <cmath>
#include <vector>

#include "tests/support/catch.h"

namespace hearth::test {
namespace {

std::vector<float> draw(uint64_t key, size_t n, float deviation = 1.0f) {
  std::vector<float> values(n);
  NormalStream(key).fill(values, deviation);
  return values;
}

TEST_CASE("streams are normally distributed") {
  const std::vector<float> x = draw(1, 1'000'000);
  double mean = 0, square = 0, fourth = 0, beyond_two = 0;
  for (const float value : x) {
    const double v = static_cast<double>(value);
    mean += v;
    square += v * v;
    fourth += v * v * v * v;
    beyond_two += std::fabs(v) > 2.0 ? 1 : 0;
  }
  const double n = static_cast<double>(x.size());
  CHECK(std::fabs(mean / n) < 0.005);  // five standard errors
  CHECK(square / n == Approx(1.0).epsilon(0.01));
  CHECK(fourth / n == Approx(3.0).epsilon(0.02));
  CHECK(beyond_two / n == Approx(0.0455).epsilon(0.03));
}

TEST_CASE("neighbors in a stream, and streams of neighboring keys, are uncorrelated") {
  const std::vector<float> x = draw(7, 200'001), y = draw(8, 200'001);
  double with_next = 0, with_other = 0;
  for (size_t i = 0; i + 1 < x.size(); ++i) {
    with_next += static_cast<double>(x[i]) * static_cast<double>(x[i + 1]);
    with_other += static_cast<double>(x[i]) * static_cast<double>(y[i]);
  }
  CHECK(std::fabs(with_next / 200'000) < 0.012);
  CHECK(std::fabs(with_other / 200'000) < 0.012);
}

TEST_CASE("a key gives the same numbers each time") {
  CHECK(draw(3, 1001) == draw(3, 1001));
  CHECK(draw(3, 100) != draw(4, 100));
  CHECK(mix_keys(1, 2) != mix_keys(2, 1));
  const std::vector<float> one = draw(3, 50), half = draw(3, 50, 0.5f);
  for (size_t i = 0; i < one.size(); ++i) CHECK(half[i] == 0.5f * one[i]);
}

}  // namespace
}  // namespace hearth::test
