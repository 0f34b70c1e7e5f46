// The thresholds of calibrated sparsity, and the file beside the model in which they are stored.
//
// hearth-profiler calibrate determines the thresholds from a text and writes the file; ModelRuntime reads it
// at load.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/model/model_file.h"
#include "engine/model/model_spec.h"

namespace hearth {

struct Calibration {
  /// [n_layers] Layer i skips a neuron if |activation| * norm of the neuron's down column is below
  /// thresholds[i].
  std::vector<float> thresholds;
  std::string text_sha256;      // hash of the text from which the thresholds were determined
  double fidelity_budget = 0;   // allowed rise of perplexity, as a share
  double dense_perplexity = 0;  // perplexity of dense mode on the held-out part of the text
  double perplexity = 0;        // perplexity with neurons skipped, on the held-out part of the text
  double skipped = 0;           // share of neurons whose down column is skipped, on the held-out part
};

/// "model.gguf" -> "model.gguf.calibration".
std::filesystem::path calibration_path(const std::filesystem::path& model);

/// Throws ModelFileError with a one-sentence message if the file is missing, damaged or belongs to another
/// model.
Calibration read_calibration(const ModelFile& model, const ModelSpec& spec);

/// Writes the file, or replaces an older file as a whole. Throws std::runtime_error with a one-sentence
/// message if that fails.
void write_calibration(const ModelFile& model, const ModelSpec& spec, const Calibration& calibration);

}  // namespace hearth
