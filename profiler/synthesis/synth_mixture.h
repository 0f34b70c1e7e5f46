// The tensors of a synthetic mixture of experts: planted routing, and planted zeros in experts with ReLU-like activations.
//
// Called by make_synth_model only.
#pragma once

#include <functional>

#include "engine/model/model_spec.h"
#include "profiler/synthesis/synth_model.h"

namespace hearth {

/// How much attention and the FFN add to the residual, in all layers together, beside an embedding of 1. The
/// layers repeat and the residual changes slowly, so their contributions add up as lengths, not as squares.
inline constexpr double kSynthContribution = 0.25;

/// As make_synth_model. REQUIRES: the shape has experts; options.plain, not sparse; heads of at least
/// ActivitySpace::kRank dimensions.
SynthModel make_synth_mixture(const SynthOptions& options, const std::function<void(double)>& progress);

/// Rotary embedding of a shape as its file says it.
RopeSpec synth_rope(const ModelShape& shape);

/// The RopeSpec of gpt-oss's files: contexts of 4,096 extended by 32.
inline constexpr int kOssOriginalContext = 4096;
inline constexpr double kOssRopeFactor = 32.0;

}  // namespace hearth
