// Makes the tensors in which synthetic models plant what is chosen: routers, gates of experts, and an output
// matrix that never chooses control tokens.
//
// Called by the makers of synthetic models, on one thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "profiler/synthesis/planted_routing.h"
#include "profiler/synthesis/synth_tensors.h"

namespace hearth {

/// Makes the output matrix [n_vocab, d_model]. The logits of control tokens are 0, so that no text ends
/// early.
SynthTensor planted_output(TensorMaker& tensors, const ActivitySpace& space, DType dtype, int64_t n_vocab,
                           int64_t d_model, uint64_t stream);

/// Makes the directions of a layer's experts: each of n is chosen as a power law with this exponent says.
std::vector<PlantedDirection> planted_experts(const ModelShape& shape, double skew, uint64_t seed);

/// Makes the float matrix ffn_gate_inp. length: the length of w in the router's input, relative to the length
/// of w in a complete input.
SynthTensor planted_router(const ActivitySpace& space, std::span<const PlantedDirection> experts,
                           int64_t d_model, double length);

/// Makes the gate matrices of all experts, whose neurons fire with planted frequencies. The frequencies have
/// the same distribution in each expert. active: the mean share of neurons that fire.
SynthTensor planted_gates(TensorMaker& tensors, const ActivitySpace& space, std::string name, DType dtype,
                          const ModelShape& shape, double active, uint64_t seed);

}  // namespace hearth
