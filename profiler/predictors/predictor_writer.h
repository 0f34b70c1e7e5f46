// Writes trained predictors to a file: a side file with only the predictors, or the whole model in
// PowerInfer's form.
//
// Both kinds of file are written piece by piece, and get their final names only when they are complete
// (engine/model/gguf/writer.h).
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/model/model_file.h"
#include "engine/model/model_spec.h"
#include "kernels/dtype.h"
#include "profiler/predictors/predictor_net.h"

namespace hearth {

/// The predictors of a model. They are made one at a time, because all predictors of a large model may not
/// fit in memory together.
struct PredictorSource {
  std::vector<int> ranks;                       // [n_layers]
  std::function<PredictorNet(int layer)> make;  // returns the layer's net; its rank is as in `ranks`
  float threshold = 0.0f;                       // the least logit for which a neuron is proposed
};

/// Returns the default type of predictors: the type of the first layer's up matrix, or F16 if that type is
/// F32, BF16, MXFP4 or a type to which Hearth cannot quantize.
DType default_predictor_type(const ModelFile& model);
/// The type that an option names: "f16", "q8_0" or "q4_0"; any other name gives the default.
DType predictor_type(std::string_view name, const ModelFile& model);

/// Returns the reason why a model cannot be written as a PowerInfer file, or an empty string if it can.
/// PowerInfer supports four architectures, each with one activation.
std::string why_no_powerinfer_file(const ModelSpec& spec);

/// Writes the side file, which open_predictor_file() finds beside the model. A predictor matrix whose rows
/// are not whole weight blocks of `type` is written as F16. Throws std::runtime_error (one sentence), and any
/// exception of `predictors`.
void write_predictor_file(const ModelFile& model, const ModelSpec& spec, const PredictorSource& predictors,
                          DType type);

/// Writes the model with these predictors in PowerInfer's form: magic PWRI, ffn_down transposed to one row
/// per neuron, fc1 and fc2 after everything else, and the threshold. Replaces predictors that the model
/// already has. Down projections keep their type if Hearth can quantize to it, and become F16 otherwise; all
/// other tensors are copied. progress: called with the completed share of the work; if it throws, writing
/// ends and leaves no file. Throws std::runtime_error (one sentence). REQUIRES: why_no_powerinfer_file() is
/// empty.
void write_powerinfer_file(const std::filesystem::path& path, const ModelFile& model, const ModelSpec& spec,
                           const PredictorSource& predictors, DType type, bool replace,
                           const std::function<void(double)>& progress);

}  // namespace hearth
