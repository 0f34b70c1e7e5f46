// Binds the tensors of recurrent layers (gated delta nets). Called by bind_weights().
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "engine/model/binder.h"
#include "engine/model/model_spec.h"
#include "engine/model/weights.h"

namespace hearth {

/// Binds the weights of a layer with Architecture::row_decays. copies: keeps the vectors that are converted
/// because the file has them in another form.
DeltaWeights bind_kda(Binder& bind, const ModelSpec& spec, const std::string& prefix,
                      std::vector<std::vector<std::byte>>& copies);

/// Binds the decays a [n_v_heads] of a recurrent layer, a tensor of n_rows rows. Throws ModelFileError if a
/// number could make a state grow.
const float* bind_decays(Binder& bind, const std::string& name, int64_t n_rows, int64_t n_cols);

/// Binds the tensors whose names begin with `prefix` ("blk.3."), in either form that files have. The
/// projections of q, k, v and z are two tensors, or one tensor packed by key head (ssm_in, files of December
/// 2025). The projections of beta and alpha are two tensors or one (ssm_ba, qwen3next). The rows of packed
/// tensors are copied to `copies` in the order of separate tensors, so that other code need not distinguish
/// the forms. The copies of ssm_in are about 1 % of a model of Qwen3-Next's shape. Throws ModelFileError as
/// Binder does, and if a number of ssm_a could make a state grow.
DeltaWeights bind_delta(Binder& bind, const ModelSpec& spec, const std::string& prefix,
                        std::vector<std::vector<std::byte>>& copies);

}  // namespace hearth
