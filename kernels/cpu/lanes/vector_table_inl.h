// The table VectorKernels of one ISA: the functions of rows_inl.h, attention_inl.h, recurrent_inl.h and
// indexer_inl.h, in the order of its members.
//
// Only <isa>/vector_<isa>.cpp includes this, after one of the lanes_*.h.
#pragma once

#include "kernels/cpu/isa/vector_kernels.h"
#include "kernels/cpu/lanes/attention_inl.h"
#include "kernels/cpu/lanes/indexer_inl.h"
#include "kernels/cpu/lanes/recurrent_inl.h"
#include "kernels/cpu/lanes/rows_inl.h"

namespace hearth {
namespace {

constexpr VectorKernels kVectorKernels = {rms_norm,
                                          layer_norm,
                                          match_row,
                                          cut_row,
                                          mix_row,
                                          gated_activation,
                                          softmax,
                                          sigmoid,
                                          add_weighted_rows,
                                          soft_cap,
                                          rotate,
                                          to_half,
                                          to_q8,
                                          {attend<KvType::kF16>, attend<KvType::kQ8>},
                                          {attend_partly_seen<KvType::kF16>, attend_partly_seen<KvType::kQ8>},
                                          merge,
                                          divide,
                                          convolve,
                                          delta_gates,
                                          delta_tokens,
                                          scan_tokens,
                                          delta_replay,
                                          index_scores};

}  // namespace
}  // namespace hearth
