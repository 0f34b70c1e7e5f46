// The tensors of a synthetic mixture of experts: planted routing, and planted zeros in experts with ReLU-like
// activations.
//
// Called by make_synth_model only.
#pragma once

#include <functional>

#include "engine/model/model_spec.h"
#include "profiler/synthesis/synth_model.h"

namespace hearth {

/// The size of what attention and the FFN of all layers together add to the residual, for an embedding of 1.
/// The layers repeat and the residual changes slowly, so their contributions add up as lengths, not as
/// squares.
inline constexpr double kSynthContribution = 0.25;

/// Like make_synth_model(). REQUIRES: the shape has experts; options.plain is set and options.sparse is not;
/// heads have at least ActivitySpace::kRank dimensions.
SynthModel make_synth_mixture(const SynthOptions& options, const std::function<void(double)>& progress);

/// The rotary embedding that a shape's file states.
RopeSpec synth_rope(const ModelShape& shape);

/// The RopeSpec of gpt-oss's files: contexts of 4,096 extended by 32.
inline constexpr int kOssOriginalContext = 4096;
inline constexpr double kOssRopeFactor = 32.0;

}  // namespace hearth
