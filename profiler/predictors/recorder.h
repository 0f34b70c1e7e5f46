// Records what predictors are trained on: runs texts through a model and keeps, layer by layer, every token's
// predictor input and its neurons' contributions (record_file.h).
//
// Called by training on the thread that runs the model, which must have been loaded dense on the CPU.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "engine/forward/neuron_observer.h"
#include "engine/model_runtime.h"
#include "profiler/predictors/record_file.h"

namespace hearth {

/// The shape of one layer's recording.
RecordShape record_shape(const ModelSpec& spec, int layer);

/// Bytes on disk that n_rows tokens of all layers take.
uint64_t record_bytes(const ModelSpec& spec, int64_t n_rows);

/// Euclidean norms [d_ff] of a layer's down columns, from the file's tensor. REQUIRES: a model that loads.
std::vector<float> down_norms(const ModelFile& file, const ModelSpec& spec, int layer);

struct RecordInputs {
  std::filesystem::path folder;   // where the layers' files are
  std::span<const int32_t> text;  // [n_windows, n_context]; each window is a sequence of its own
  int n_context = 512;
};

/// Records the windows that are not yet: what an interrupted run left is kept, as far as all layers have it.
/// progress: called after each window with the share done. Returns the rows each layer's file has: the text's
/// tokens. Throws std::runtime_error (one sentence): files of another model, no room; what progress throws,
/// after which recording goes on where it was. REQUIRES: n_context within the model's KV memory.
int64_t record_activity(ModelRuntime& model, const RecordInputs& inputs,
                        const std::function<void(double)>& progress);

}  // namespace hearth
