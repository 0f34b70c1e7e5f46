// Reads how a text's hidden states become its result: an embedding, or scores of a pair of texts.
//
// Called by read_model_spec().
#pragma once

#include "engine/model/model_spec.h"
#include "engine/model/spec_keys.h"

namespace hearth {

/// Sets pooling, n_scores and d_head. A file ranks pairs of texts if it has the tensor cls.output.weight;
/// then it computes no logits, so has_output becomes false. Throws ModelFileError if the head is incomplete
/// or gives scores that do not rank.
void read_head(const SpecKeys& keys, ModelSpec& spec);

}  // namespace hearth
