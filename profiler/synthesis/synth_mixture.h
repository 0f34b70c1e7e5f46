// Makes the tensors of a synthetic mixture of experts, with planted routing, and with planted zeros in
// experts whose activation is like ReLU.
//
// Called by make_synth_model only.
#pragma once

#include <functional>

#include "engine/model/model_spec.h"
#include "profiler/synthesis/synth_model.h"

namespace hearth {

/// The length of the vector that attention and FFNs of all layers together add to the residual, if the
/// embedding has length 1. The layers repeat and the residual changes slowly, so the lengths of their
/// contributions add up, rather than the squares of these lengths.
inline constexpr double kSynthContribution = 0.25;

/// Like make_synth_model(), for mixtures. REQUIRES: the shape has experts; options.plain is set and
/// options.sparse is not; heads have at least ActivitySpace::kRank dimensions.
SynthModel make_synth_mixture(const SynthOptions& options, const std::function<void(double)>& progress);

/// Returns the rotary embedding that files of this shape have.
RopeSpec synth_rope(const ModelShape& shape);

/// Values of the RopeSpec in gpt-oss's files: contexts of 4,096 tokens, extended by a factor of 32.
inline constexpr int kOssOriginalContext = 4096;
inline constexpr double kOssRopeFactor = 32.0;

}  // namespace hearth
