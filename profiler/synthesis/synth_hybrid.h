// Makes the tensors of hybrid models, which layer_tensors.h lists. Routers choose each expert with a planted
// frequency. Unlike in synth_mixture.h, how often the next token chooses an expert again is not planted,
// because the first layers are recurrent or have a window, so no early attention can mix recent tokens.
//
// Called by make_synth_model() and synth_sizes() only.
#pragma once

#include <functional>

#include "profiler/synthesis/synth_model.h"

namespace hearth {

/// Like make_synth_model() and synth_sizes(). REQUIRES: the shape is hybrid; options.plain is set and
/// options.sparse is not.
SynthModel make_synth_hybrid(const SynthOptions& options, const std::function<void(double)>& progress);
SynthSizes hybrid_sizes(const SynthOptions& options);

}  // namespace hearth
