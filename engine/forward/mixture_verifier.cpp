// See the header.
#include "engine/forward/mixture_verifier.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <utility>

namespace hearth {
namespace {

bool same_value(float a, float b) {
  // The bits of a NaN depend on the processor.
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

/// The shortest text that tells any two floats apart.
std::string float_text(float value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", static_cast<double>(value));
  return text;
}

}  // namespace

/// How a result differs from the expected one.
struct MixtureVerifier::Difference {
  size_t n_values = 0, n_different = 0;
  float found = 0, expected = 0;  // the first different value
};

MixtureVerifier::MixtureVerifier(const ModelSpec& spec, int max_tokens,
                                 std::function<void(const std::string&)> warn)
    : spec_(spec), warn_(std::move(warn)) {
  const auto n_tokens = static_cast<size_t>(std::min(max_tokens, kMaxTokens));
  const auto d_model = static_cast<size_t>(spec.d_model);
  x_.resize(n_tokens * d_model);
  before_.resize(n_tokens * d_model);
  logits_.resize(n_tokens * static_cast<size_t>(spec.mixture.n_experts));
}

bool MixtureVerifier::begin_step(bool comparable) {
  verifies_ = comparable && steps_left_ == 0;
  if (verifies_) steps_left_ = kStepsApart;
  steps_left_ = std::max(0, steps_left_ - 1);
  return verifies_;
}

void MixtureVerifier::copy_inputs(const LayerCall& call, const float* logits) {
  n_tokens_ = std::min(call.n_tokens, kMaxTokens);
  const auto n_tokens = static_cast<size_t>(n_tokens_);
  const auto copy = [&](const float* from, int64_t n_cols, std::vector<float>& to) {
    const size_t n = n_tokens * static_cast<size_t>(n_cols);
    std::copy_n(call.backend.to_host(from, n), n, to.begin());
  };
  copy(call.normed, spec_.d_model, x_);
  copy(logits, spec_.mixture.n_experts, logits_);
  copy(call.out, spec_.d_model, before_);
}

void MixtureVerifier::compare(const LayerCall& call, const float* mixture) {
  Difference difference;
  difference.n_values = static_cast<size_t>(n_tokens_) * static_cast<size_t>(spec_.d_model);
  const float* const result = call.backend.to_host(call.out, difference.n_values);
  for (size_t i = 0; i < difference.n_values; ++i) {
    const float expected = before_[i] + mixture[i];
    if (same_value(result[i], expected)) continue;
    if (difference.n_different++ > 0) continue;
    difference.found = result[i];
    difference.expected = expected;
  }
  ++totals_.layers;
  if (difference.n_different == 0) return;
  if (totals_.mismatches++ == 0) warn_about(call.layer, difference);
}

void MixtureVerifier::warn_about(int layer, const Difference& difference) const {
  if (!warn_) return;
  warn_("--verify has found a wrong result: in layer " + std::to_string(layer) + ", " +
        std::to_string(difference.n_different) + " of " + std::to_string(difference.n_values) +
        " values of the experts on the GPU and the CPU differ from those of the CPU alone (the first is " +
        float_text(difference.found) + ", expected " + float_text(difference.expected) +
        "), so answers may be wrong: serve with --device cpu, and report this line with the log's CUDA line; "
        "hearth_verification_mismatches_total counts further layers");
}

}  // namespace hearth
