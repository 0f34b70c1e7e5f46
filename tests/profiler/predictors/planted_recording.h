// A recording whose neurons a predictor can learn: each neuron is active if the input is on one side of a
// plane in a space of few dimensions.
#pragma once

#include <filesystem>

#include "profiler/predictors/recording.h"

namespace hearth::test {

inline constexpr RecordShape kPlantedShape{.layer = 0, .d_model = 32, .d_ff = 64};

/// Writes n_rows rows of random inputs of different sizes. About a quarter of the neurons are active.
RecordFile planted_recording(const std::filesystem::path& path, int n_rows, uint64_t seed = 1);

}  // namespace hearth::test
