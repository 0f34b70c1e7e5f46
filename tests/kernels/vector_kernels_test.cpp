// The float operations of every ISA compared with doubles, at all sizes around the sixteen lanes.
#include "kernels/cpu/isa/vector_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/quant/half.h"
#include "tests/support/catch.h"
#include "tests/support/reference_experts.h"
#include "tests/support/reference_ops.h"
#include "tests/support/skip.h"

namespace hearth {
namespace {

const std::vector<int64_t> kSizes = {1, 2, 3, 8, 15, 16, 17, 31, 48, 63, 64, 65, 127, 130, 576, 1000};

// The error allowed for each operation, relative to the given size. Rounding to float is 6e-8.
constexpr double kNormTolerance = 1e-6;  // of the result: a few roundings, and a sum over 64 lanes
constexpr double kSiluTolerance = 6e-7;  // of the result: exp within 2 units, add, divide, multiply
constexpr double kGeluTolerance =
    1e-5;  // of the result: an argument of exp up to 80 rounded three times (gpt-oss: twice)
constexpr double kRotationTolerance = 2.5e-7;  // of |a| + |b|: the sine's rounding, two products, a sum
constexpr double kGeluErfTolerance = 5e-7;     // of gate * up: digits are lost where the tail cancels
constexpr double kSoftCapTolerance =
    6e-7;  // of the result: exp within 2 units, add, divide, subtract, multiply
// exp stops at e^88.37, so silu and gelu of a very negative number give 4e-39 instead of 0.
constexpr double kVanishing = 5e-39;

const FfnActivation kActivations[] = {
    {Activation::kSilu},
    {Activation::kGelu},
    {Activation::kGeluErf},
    {Activation::kRelu},
    {Activation::kRelu, 0.5f},
    {Activation::kRelu2},
    {Activation::kDRelu},
    {Activation::kSwigluOai},
    {Activation::kSigmoid},
    {Activation::kIdentity},
    {Activation::kSoftplus},
    {.kind = Activation::kSwigluClamped, .limit = 1.5f},
    {.kind = Activation::kXielu, .xielu = {.alpha_p = 0.8f, .alpha_n = 0.6f, .beta = 0.5f}}};

std::vector<float> normal_around(int64_t n, unsigned seed, float mean = 0.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(mean, 1.0f);
  std::vector<float> out(static_cast<size_t>(n));
  for (float& x : out) x = normal(random);
  return out;
}

/// The largest |ours - expected| / size over all elements; an unexpected NaN counts as infinite.
double worst_error(const std::vector<float>& ours, const std::vector<double>& expected, double floor) {
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double error = std::abs(double{ours[i]} - expected[i]) / (std::abs(expected[i]) + floor);
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  }
  return worst;
}

}  // namespace

TEST_CASE("every instruction set is tested on this processor", "[vector]") {
  std::string missing;
  for (Isa isa : kAllIsas) {
    const std::vector<Isa> here = supported_isas();
    // The loops for AVX-VNNI and AMX are tested wherever AVX-512's are:
    // tests/kernels/avxvnni_standin_test.cpp, amx_standin_test.cpp.
    if (!is_built(isa) || isa == Isa::kAvxVnni || isa == Isa::kAmx) continue;
    if (std::find(here.begin(), here.end(), isa) == here.end()) missing += " " + std::string(isa_name(isa));
  }
  if (!missing.empty()) testing::skip("this processor lacks" + missing);
}

TEST_CASE("rms_norm divides by the root mean square", "[vector]") {
  for (Isa isa : supported_isas()) {
    for (int64_t n : kSizes) {
      std::vector<float> x = normal_around(n, 1);
      const std::vector<float> weight = normal_around(n, 2, 1.0f);
      const std::vector<double> expected = testing::reference_rms_norm(x.data(), weight.data(), 1e-5, n);
      vector_kernels(isa).rms_norm(x.data(), weight.data(), 1e-5f, n, x.data());  // in place
      INFO(isa_name(isa) << ", " << n);
      CHECK(worst_error(x, expected, 0) < kNormTolerance);
    }
  }
}

TEST_CASE("layer_norm subtracts the mean, even far from zero", "[vector]") {
  for (Isa isa : supported_isas()) {
    for (int64_t n : kSizes) {
      for (bool with_bias : {false, true}) {
        std::vector<float> x = normal_around(n, 1, 3.0f);
        const std::vector<float> weight = normal_around(n, 2, 1.0f), bias = normal_around(n, 3);
        const float* b = with_bias ? bias.data() : nullptr;
        const std::vector<double> expected =
            testing::reference_layer_norm(x.data(), weight.data(), b, 1e-5, n);
        vector_kernels(isa).layer_norm(x.data(), weight.data(), b, 1e-5f, n, x.data());
        INFO(isa_name(isa) << ", " << n);
        // Subtracting the mean leaves the rounding of a number of size 3; with a single number there is none.
        CHECK(worst_error(x, expected, n == 1 ? 1e3 : 4.0) < kNormTolerance);
      }
    }
  }
}

TEST_CASE("match_row gives a row the length of another one, and does not lengthen rows of zeros",
          "[vector]") {
  for (Isa isa : supported_isas()) {
    for (int64_t n : kSizes) {
      const std::vector<float> to = normal_around(n, 1, 2.0f);
      for (const float size : {1.0f, 1e-4f, 0.0f}) {
        std::vector<float> x = normal_around(n, 2);
        for (float& one : x) one *= size;
        const std::vector<double> expected = testing::reference_match_row(to.data(), 1e-5, x.data(), n);
        vector_kernels(isa).match_row(to.data(), 1e-5f, n, x.data());
        INFO(isa_name(isa) << ", " << n << ", size " << size);
        CHECK(worst_error(x, expected, 1e-30) < kNormTolerance);
      }
      std::vector<float> bad(static_cast<size_t>(n), NAN);
      vector_kernels(isa).match_row(to.data(), 1e-5f, n, bad.data());
      CHECK(std::isnan(bad.front()));
    }
  }
}

TEST_CASE("cut_row keeps what is above the mean by so many deviations", "[vector]") {
  for (Isa isa : supported_isas()) {
    for (int64_t n : kSizes) {
      for (const float n_deviations : {-0.5f, 0.0f, 1.645f}) {
        std::vector<float> x = normal_around(n, 1, 3.0f);
        const std::vector<double> expected = testing::reference_cut_row(n_deviations, x.data(), n);
        vector_kernels(isa).cut_row(n_deviations, n, x.data());
        INFO(isa_name(isa) << ", " << n << ", " << n_deviations << " deviations");
        CHECK(worst_error(x, expected, 4.0) < kNormTolerance);  // numbers of about 3 are subtracted
        for (size_t i = 0; i < x.size(); ++i) {
          if (expected[i] > 1e-4) CHECK(x[i] > 0.0f);
          CHECK(x[i] >= 0.0f);
        }
      }
      std::vector<float> bad = normal_around(n, 1);
      bad.back() = NAN;
      vector_kernels(isa).cut_row(0.0f, n, bad.data());
      CHECK(std::isnan(bad.front()));
    }
  }
}

TEST_CASE("mix_row adds weighted rows to a row", "[vector]") {
  for (Isa isa : supported_isas()) {
    for (int64_t n : kSizes) {
      for (const int n_added : {0, 1, 4}) {
        const int64_t stride = n + 5;
        const std::vector<float> x = normal_around(n, 1), added = normal_around(n_added * stride, 2),
                                 weights = normal_around(n_added, 3);
        std::vector<float> out(x.size());
        const std::vector<double> expected = testing::reference_mixed_row(
            {x.data(), added.data(), weights.data(), out.data(), 1, n_added, stride, 1, n}, 0, 0);
        vector_kernels(isa).mix_row(x.data(), added.data(), stride, weights.data(), n_added, n, out.data());
        INFO(isa_name(isa) << ", " << n << ", " << n_added << " rows added");
        CHECK(worst_error(out, expected, 1.0) < 5e-7);
      }
    }
  }
}

TEST_CASE("activations follow their formulas over the whole range of floats", "[vector]") {
  std::vector<float> gate, up;
  for (float x = -87.0f; x <= 87.0f; x += 0.0371f) gate.push_back(x);
  for (float x = 1e-30f; x < 1e30f; x *= 3.0f) gate.insert(gate.end(), {x, -x});
  gate.insert(gate.end(), {0.0f, -0.0f});
  up = normal_around(static_cast<int64_t>(gate.size()), 3, 2.0f);
  for (Isa isa : supported_isas()) {
    for (const FfnActivation act : kActivations) {
      std::vector<double> expected;
      for (size_t i = 0; i < gate.size(); ++i) {
        expected.push_back(testing::reference_gated(act, double{gate[i]}, double{up[i]}));
      }
      std::vector<float> out(gate.size());
      vector_kernels(isa).gated_activation(act, gate.data(), up.data(), static_cast<int64_t>(gate.size()),
                                           out.data());
      const bool scaled = act.kind == Activation::kGelu || act.kind == Activation::kSwigluOai;
      const double tolerance = scaled ? kGeluTolerance : kSiluTolerance;
      INFO(isa_name(isa) << ", activation " << static_cast<int>(act.kind));
      double worst = 0;
      for (size_t i = 0; i < gate.size(); ++i) {
        if (std::abs(expected[i]) > 3e38) continue;  // relu2 of numbers beyond the root of the largest float
        const double error = std::abs(double{out[i]} - expected[i]);
        const double allowed = tolerance * std::abs(expected[i]) +
                               kVanishing * (1 + std::abs(double{gate[i]})) * (1 + std::abs(double{up[i]}));
        // gelu by tanh loses all digits where it nearly cancels; there the reference itself is imprecise.
        const double scale = std::abs(double{gate[i]} * double{up[i]});
        const double cancelled = act.kind == Activation::kGelu && gate[i] < 0 ? 4e-16 * scale : 0.0;
        const double by_scale = act.kind == Activation::kGeluErf ? kGeluErfTolerance * scale : 0.0;
        // xIELU is the difference of two terms where x is negative.
        const double of_terms = act.kind == Activation::kXielu ? tolerance * scale : 0.0;
        const double ratio = error / (allowed + cancelled + by_scale + of_terms);
        if (!(ratio <= worst)) worst = ratio;
      }
      CHECK(worst <= 1.0);
    }
  }
}

TEST_CASE("an activation of NaN is NaN", "[vector]") {
  for (Isa isa : supported_isas()) {
    for (const FfnActivation act : kActivations) {
      const std::vector<float> gate(17, NAN), up(17, 1.0f);
      std::vector<float> out(17, 0.0f);
      vector_kernels(isa).gated_activation(act, gate.data(), up.data(), 17, out.data());
      INFO(isa_name(isa) << ", activation " << static_cast<int>(act.kind));
      CHECK(std::isnan(out[0]));
      CHECK(std::isnan(out[16]));
      // A gate of zero must not hide a NaN in up either.
      const std::vector<float> zero(17, 0.0f);
      vector_kernels(isa).gated_activation(act, zero.data(), gate.data(), 17, out.data());
      CHECK(std::isnan(out[0]));
      CHECK(std::isnan(out[16]));
    }
  }
}

TEST_CASE("without up an activation is that of the gate alone", "[vector]") {
  const std::vector<float> gate = normal_around(200, 1), ones(200, 1.0f);
  for (Isa isa : supported_isas()) {
    for (const FfnActivation act : kActivations) {
      if (act.kind == Activation::kDRelu || act.kind == Activation::kSwigluOai) continue;  // they need up
      std::vector<float> alone(200), gated(200);
      vector_kernels(isa).gated_activation(act, gate.data(), nullptr, 200, alone.data());
      vector_kernels(isa).gated_activation(act, gate.data(), ones.data(), 200, gated.data());
      INFO(isa_name(isa) << ", activation " << static_cast<int>(act.kind));
      CHECK(std::memcmp(alone.data(), gated.data(), 200 * sizeof(float)) == 0);
    }
  }
}

TEST_CASE("a gate at the threshold of a relu gives zero, the next float above it passes", "[vector]") {
  for (Isa isa : supported_isas()) {
    for (const float threshold : {0.0f, 1e-40f, 0.01f, 3.0f}) {
      const float above = std::nextafter(threshold, 10.0f), below = std::nextafter(threshold, -10.0f);
      const std::vector<float> gate{threshold, above, below, -1.0f, -0.0f, INFINITY, -INFINITY};
      std::vector<float> out(gate.size());
      vector_kernels(isa).gated_activation({Activation::kRelu, threshold}, gate.data(), nullptr,
                                           static_cast<int64_t>(gate.size()), out.data());
      INFO(isa_name(isa) << ", threshold " << threshold);
      CHECK(out == std::vector<float>{0.0f, above, 0.0f, 0.0f, 0.0f, INFINITY, 0.0f});
    }
  }
}

TEST_CASE("gelu by erf goes through infinities", "[vector]") {
  for (Isa isa : supported_isas()) {
    const std::vector<float> gate{INFINITY, -INFINITY, 3e38f, -3e38f, 0.0f};
    std::vector<float> out(gate.size());
    vector_kernels(isa).gated_activation({Activation::kGeluErf}, gate.data(), nullptr, 5, out.data());
    INFO(isa_name(isa));
    CHECK(out == std::vector<float>{INFINITY, 0.0f, 3e38f, 0.0f, 0.0f});
  }
}

TEST_CASE("softmax and sigmoid follow their formulas", "[vector]") {
  for (Isa isa : supported_isas()) {
    for (int64_t n : kSizes) {
      std::vector<float> x = normal_around(n, 1, 30.0f), s = normal_around(n, 2);
      for (float& value : s) value *= 20.0f;
      const std::vector<double> softmax = testing::reference_softmax({x.begin(), x.end()});
      std::vector<double> sigmoid;
      for (const float value : s) sigmoid.push_back(1.0 / (1.0 + std::exp(-double{value})));
      vector_kernels(isa).softmax(x.data(), n, x.data());  // in place
      vector_kernels(isa).sigmoid(s.data(), n, s.data());
      INFO(isa_name(isa) << ", " << n);
      // The error has these parts: e^x is off by up to 2 units, the difference from the largest value (up to
      // 8) is rounded, and so are the sum and the division.
      CHECK(worst_error(x, softmax, 0) < 1e-6);
      CHECK(worst_error(s, sigmoid, double{kVanishing}) < kSiluTolerance);
    }
  }
}

TEST_CASE("softmax of NaN or infinity is NaN", "[vector]") {
  for (Isa isa : supported_isas()) {
    for (const size_t n : {1, 16, 19, 70}) {
      for (const size_t at : {size_t{0}, n / 2, n - 1}) {
        for (const float bad : {NAN, INFINITY}) {
          std::vector<float> x(n, 1.0f), out(n);
          x[at] = bad;
          vector_kernels(isa).softmax(x.data(), static_cast<int64_t>(n), out.data());
          CHECK(std::ranges::all_of(out, [](float value) { return std::isnan(value); }));
        }
      }
    }
    std::vector<float> x = {-INFINITY, 0.0f, -1000.0f}, out(3);
    vector_kernels(isa).softmax(x.data(), 3, out.data());
    CHECK(out == std::vector<float>{0.0f, 1.0f, 0.0f});
    x = {NAN, 1000.0f, -1000.0f};
    vector_kernels(isa).sigmoid(x.data(), 3, out.data());
    CHECK(std::isnan(out[0]));
    CHECK(out[1] == 1.0f);
    CHECK(std::abs(out[2]) < 1e-38f);
  }
}

TEST_CASE("weighted rows are added in their order", "[vector]") {
  const std::vector<float> x = normal_around(5 * 140, 1), weights = {0.5f, -2.0f, 0.3f};
  const std::vector<int32_t> ids = {4, 0, 2};
  for (Isa isa : supported_isas()) {
    for (int64_t n : {1, 15, 16, 33, 130}) {
      std::vector<float> out = normal_around(n + 1, 2);
      const std::vector<float> before = out;
      vector_kernels(isa).add_weighted_rows({x.data(), 140, ids.data(), weights.data(), 3}, n, out.data());
      double worst = 0;
      for (int64_t i = 0; i < n; ++i) {
        double expected = double{before[static_cast<size_t>(i)]};
        for (size_t j = 0; j < 3; ++j) {
          expected += double{weights[j]} * double{x[static_cast<size_t>(ids[j] * 140 + i)]};
        }
        worst = std::max(worst, std::abs(expected - double{out[static_cast<size_t>(i)]}));
      }
      INFO(isa_name(isa) << ", " << n);
      CHECK(worst < 2e-6);  // a few roundings of numbers below 10
      CHECK(out.back() == before.back());
    }
  }
}

TEST_CASE("an element's result does not depend on its place in the run", "[vector]") {
  const std::vector<float> gate = normal_around(200, 1), up = normal_around(200, 2);
  for (Isa isa : supported_isas()) {
    const VectorKernels& kernels = vector_kernels(isa);
    std::vector<float> whole(200), part(200);
    kernels.gated_activation({Activation::kSilu}, gate.data(), up.data(), 200, whole.data());
    for (int64_t first : {0, 1, 7, 16, 21}) {
      for (int64_t n : {1, 5, 16, 30, 100}) {
        kernels.gated_activation({Activation::kSilu}, gate.data() + first, up.data() + first, n, part.data());
        INFO(isa_name(isa) << ", " << first << "+" << n);
        CHECK(std::memcmp(part.data(), whole.data() + first, static_cast<size_t>(n) * sizeof(float)) == 0);
      }
    }
  }
}

TEST_CASE("rotation turns pairs of both kinds and leaves the rest of the head alone", "[vector]") {
  for (Isa isa : supported_isas()) {
    for (int n_rot : {2, 6, 16, 20, 32, 64, 80, 128}) {
      const int head_dim = n_rot + 5;
      for (RopeKind kind : {RopeKind::kHalves, RopeKind::kInterleaved}) {
        std::vector<float> head = normal_around(head_dim, 1), table, inv_freq;
        for (int i = 0; i < n_rot / 2; ++i) inv_freq.push_back(0.1f * static_cast<float>(i + 1));
        const Rope rope{kind, n_rot, inv_freq.data(), 1.25f};
        const size_t half = inv_freq.size();
        table.resize(kind == RopeKind::kHalves ? 2 * half : 4 * half);
        for (size_t i = 0; i < half; ++i) {
          const double angle = 3.0 * double{inv_freq[i]};
          const float c = static_cast<float>(1.25 * std::cos(angle)),
                      s = static_cast<float>(1.25 * std::sin(angle));
          if (kind == RopeKind::kHalves) {
            table[i] = c;
            table[half + i] = s;
          } else {
            table[2 * i] = table[2 * i + 1] = c;
            table[2 * half + 2 * i] = -s;
            table[2 * half + 2 * i + 1] = s;
          }
        }
        const std::vector<float> before = head;
        const std::vector<double> expected = testing::reference_rope(head.data(), head_dim, 3, rope);
        vector_kernels(isa).rotate(kind, table.data(), n_rot, head.data());
        INFO(isa_name(isa) << ", " << n_rot);
        CHECK(worst_error(head, expected, 4.0) < kRotationTolerance);
        CHECK(std::memcmp(head.data() + n_rot, before.data() + n_rot, 5 * sizeof(float)) == 0);
      }
    }
  }
}

TEST_CASE("floats become halves by rounding to nearest even", "[vector]") {
  std::vector<float> x;
  for (uint32_t bits = 0; bits < 0x10000; bits += 7) {
    const float exact = float_from_half(static_cast<uint16_t>(bits));
    if (!std::isfinite(exact)) continue;
    const float next = float_from_half(static_cast<uint16_t>(bits + 1));
    const float middle = exact + (next - exact) / 2;  // a tie
    x.insert(x.end(), {exact, std::nextafter(exact, INFINITY), std::nextafter(exact, -INFINITY)});
    if (std::isfinite(next)) {
      x.insert(x.end(), {middle, std::nextafter(middle, INFINITY), std::nextafter(middle, -INFINITY)});
    }
  }
  x.insert(x.end(), {65519.0f, 65520.0f, -65520.0f, 1e30f, INFINITY, -INFINITY, 0.0f, -0.0f, 1e-40f});
  for (Isa isa : supported_isas()) {
    for (size_t n : {x.size(), size_t{5}, size_t{16}, size_t{21}}) {
      std::vector<uint16_t> out(n + 1, 0xabcd);
      vector_kernels(isa).to_half(x.data(), static_cast<int64_t>(n), out.data());
      size_t n_wrong = 0;
      for (size_t i = 0; i < n; ++i) n_wrong += out[i] != half_from_float(x[i]) ? 1 : 0;
      INFO(isa_name(isa) << ", " << n);
      CHECK(n_wrong == 0);
      CHECK(out[n] == 0xabcd);
    }
  }
}

TEST_CASE("floats become 8-bit integers with shared scales as the format says", "[vector]") {
  std::mt19937 rng(5);
  std::vector<float> x;
  const auto group = [&](const auto& number) {
    for (int i = 0; i < kKvGroup; ++i) x.push_back(number(i));
  };
  for (const float deviation : {1.5f, 1e-3f, 1e-6f, 1e-8f, 1e4f, 3e6f}) {
    std::normal_distribution<float> normal(0.0f, deviation);
    for (int i = 0; i < 50; ++i) group([&](int) { return normal(rng); });
  }
  group([](int) { return 0.0f; });
  group([](int i) { return i % 2 == 0 ? -0.0f : 0.0f; });
  group([](int i) { return i == 31 ? -127.0f : static_cast<float>(i) + 0.5f; });  // a scale of 1: ties
  group([](int i) { return i == 0 ? 63.5f : -0.25f * static_cast<float>(i); });   // of 1/2
  group([](int i) { return i == 7 ? 127 * 0x1p-25f : 0.0f; });             // the largest whose scale is 0
  group([](int i) { return i == 7 ? 127 * 0x1.000002p-25f : 0x1p-25f; });  // the smallest that is not
  group([](int i) { return i == 20 ? 127 * 0x1.7fp-24f : 0x1p-24f; });     // rounded down: clamped
  group([](int i) { return i == 3 ? 127 * 65504.0f : 65504.0f; });         // the largest scale
  for (const float bad : {NAN, INFINITY, -INFINITY, 127 * 65520.0f, 1e30f}) {
    group([&](int i) { return i == 30 ? bad : 1.0f; });
    group([&](int i) { return i == 2 ? bad : -0.5f; });
  }
  const size_t n_groups = x.size() / kKvGroup;
  for (Isa isa : supported_isas()) {
    std::vector<int8_t> whole(x.size() + 1, 99);
    std::vector<uint16_t> scales(n_groups + 1, 0xabcd);
    vector_kernels(isa).to_q8(x.data(), static_cast<int64_t>(x.size()), whole.data(), scales.data());
    for (size_t g = 0; g < n_groups; ++g) {
      const testing::ReferenceGroup expected = testing::reference_kv_q8(x.data() + g * kKvGroup);
      INFO(isa_name(isa) << ", group " << g << " of " << n_groups);
      CHECK(scales[g] == expected.scale);
      CHECK(std::memcmp(whole.data() + g * kKvGroup, expected.whole, kKvGroup) == 0);
      // Finite values are within half a step.
      const float scale = float_from_half(scales[g]);
      for (size_t i = 0; i < kKvGroup && scale > 0x1p-14f; ++i) {
        const double kept = double{expected.number(static_cast<int>(i))};
        CHECK(std::abs(kept - double{x[g * kKvGroup + i]}) <= 0.5001 * double{scale});
      }
    }
    CHECK(whole.back() == 99);
    CHECK(scales.back() == 0xabcd);
  }
}

TEST_CASE("attention to a single key returns its value exactly, for every half there is", "[vector]") {
  constexpr int kHeadDim = 250;  // the last lanes are not full
  const std::vector<float> q(kHeadDim, 1.0f);
  const std::vector<uint16_t> k(kHeadDim, 0x3c00);
  const int32_t limit = 1, block = 0;
  float scores[kKeyTile], largest = 0, sum = 0;
  std::vector<float> weighted(kHeadDim);
  for (Isa isa : supported_isas()) {
    size_t n_wrong = 0;
    for (uint32_t first = 0; first < 0x10000; first += kHeadDim) {
      std::vector<uint16_t> v;
      for (uint32_t i = 0; i < kHeadDim; ++i) v.push_back(static_cast<uint16_t>(first + i));
      AttentionTile tile;
      tile.q = q.data();
      tile.limits = &limit;
      tile.n_rows = 1;
      tile.head_dim = kHeadDim;
      tile.end = 1;
      tile.k = k.data();
      tile.v = v.data();
      tile.blocks = &block;
      tile.block_tokens = 1;
      tile.scores = scores;
      tile.largest = &largest;
      tile.sum = &sum;
      tile.weighted = weighted.data();
      vector_kernels(isa).attend[static_cast<size_t>(KvType::kF16)](tile);
      for (size_t i = 0; i < v.size(); ++i) {
        const float expected = float_from_half(v[i]);
        const bool right = std::isnan(expected) ? std::isnan(weighted[i]) : weighted[i] == expected;
        n_wrong += right ? 0 : 1;
      }
    }
    INFO(isa_name(isa));
    CHECK(n_wrong == 0);
    CHECK(sum == 1.0f);
    CHECK(largest == static_cast<float>(kHeadDim));
  }
}

TEST_CASE("attention caps scores by cap * tanh(score / cap)", "[vector]") {
  std::vector<float> q;  // with a single key of 1, these are the scores
  for (float size = 1e-6f; size < 1e5f; size *= 1.07f) q.insert(q.end(), {size, -size});
  for (float x = -3.0f; x < 3.0f; x += 0.01f) q.push_back(x);
  q.insert(q.end(), {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 1e38f, -1e38f, 1e-40f});
  const uint16_t k = 0x3c00, v = 0x3c00;
  const int32_t block = 0;
  const std::vector<int32_t> limits(q.size(), 1);
  std::vector<float> scores(q.size() * kKeyTile), largest(q.size()), sum(q.size()), weighted(q.size());
  for (Isa isa : supported_isas()) {
    for (float cap : {1.0f, 30.0f, 50.0f, 0.07f}) {
      PartlySeenTile tile;
      tile.q = q.data();
      tile.limits = limits.data();
      tile.n_rows = static_cast<int>(q.size());
      tile.head_dim = 1;
      tile.soft_cap = cap;
      tile.end = 1;
      tile.k = &k;
      tile.v = &v;
      tile.blocks = &block;
      tile.block_tokens = 1;
      tile.scores = scores.data();
      tile.largest = largest.data();
      tile.sum = sum.data();
      tile.weighted = weighted.data();
      vector_kernels(isa).attend_partly_seen[static_cast<size_t>(KvType::kF16)](tile);
      double worst = 0;
      for (size_t i = 0; i < q.size(); ++i) {
        const double expected = double{cap} * std::tanh(double{q[i]} / double{cap});
        const double error = std::abs(double{largest[i]} - expected) / (std::abs(expected) + 1e-37);
        if (std::isnan(expected)) {
          CHECK(std::isnan(weighted[i]));
        } else {
          worst = std::isnan(error) ? INFINITY : std::max(worst, error);
        }
      }
      INFO(isa_name(isa) << ", cap " << cap);
      CHECK(worst < kSoftCapTolerance);
    }
  }
}

}  // namespace hearth
