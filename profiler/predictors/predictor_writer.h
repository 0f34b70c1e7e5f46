// Writes trained predictors to files: a side file, or the whole model in PowerInfer's form.
//
// Both are streamed and take their names only when they are whole (engine/model/gguf/writer.h).
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

/// The predictors of a model, made one at a time: memory could not hold all of a large model's.
struct PredictorSource {
  std::vector<int> ranks;                       // [n_layers]
  std::function<PredictorNet(int layer)> make;  // of that rank
  float threshold = 0.0f;                       // a neuron is proposed if its logit is not below
};

/// The default type of predictors: the type of the model's FFN if it can be made, else F16.
DType default_predictor_type(const ModelFile& model);
/// The type that an option names: "f16", "q8_0", "q4_0"; any other name stands for the default.
DType predictor_type(std::string_view name, const ModelFile& model);

/// Why a model cannot become a PowerInfer file; empty if it can. PowerInfer knows four architectures, each
/// with its own activation.
std::string why_no_powerinfer_file(const ModelSpec& spec);

/// Writes the file that open_predictor_file() finds beside the model. If a rank is not whole weight blocks of
/// `type`, its matrix is written in F16. Throws std::runtime_error (one sentence), and what the source
/// throws.
void write_predictor_file(const ModelFile& model, const ModelSpec& spec, const PredictorSource& predictors,
                          DType type);

/// Writes the model with these predictors in PowerInfer's form: magic PWRI, ffn_down transposed to one row
/// per neuron, fc1 and fc2 behind everything else, and the threshold. Predictors that the model has are
/// replaced. Down projections keep their type if it can be made, else they become F16; everything else is
/// copied. progress: called with the share written; if it throws, the work ends and leaves no file. Throws
/// std::runtime_error (one sentence). REQUIRES: why_no_powerinfer_file() is empty.
void write_powerinfer_file(const std::filesystem::path& path, const ModelFile& model, const ModelSpec& spec,
                           const PredictorSource& predictors, DType type, bool replace,
                           const std::function<void(double)>& progress);

}  // namespace hearth
