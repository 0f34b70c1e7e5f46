// The thresholds of calibrated sparsity, and the file beside the model that keeps them.
//
// hearth-profiler calibrate finds them on a text and writes the file; ModelRuntime reads it at load.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/model/model_file.h"
#include "engine/model/model_spec.h"

namespace hearth {

struct Calibration {
  std::vector<float> thresholds;  // [n_layers]: least |value| times norm of the down column that counts
  std::string text_sha256;        // of the text they were found on
  double fidelity_budget = 0;     // by how much perplexity was allowed to rise, as a share
  double dense_perplexity = 0;    // on the part of the text that was held out
  double perplexity = 0;          // the same, calibrated
  double skipped = 0;             // share of neurons whose down column was skipped there
};

/// "model.gguf" -> "model.gguf.calibration".
std::filesystem::path calibration_path(const std::filesystem::path& model);

/// Throws ModelFileError (one sentence) if there is no file, or it is damaged or another model's.
Calibration read_calibration(const ModelFile& model, const ModelSpec& spec);

/// Writes the file and replaces an older one whole. Throws std::runtime_error (one sentence).
void write_calibration(const ModelFile& model, const ModelSpec& spec, const Calibration& calibration);

}  // namespace hearth
