// Writes the keys of synthetic models: those that converters write for the architecture, except the keys of
// the vocabulary.
//
// Called by write_synth_file() only.
#pragma once

#include "engine/model/gguf/writer.h"
#include "profiler/synthesis/shapes.h"

namespace hearth {

/// sparse: whether the file is PowerInfer's. dtype: the type of the model's matrices.
void add_synth_keys(gguf::Writer& writer, bool sparse, const ModelShape& shape, DType dtype);

}  // namespace hearth
