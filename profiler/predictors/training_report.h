// Reports the result of training predictors, for people and for programs. Pure functions.
#pragma once

#include <filesystem>
#include <string>

#include "profiler/predictors/train_predictors.h"

namespace hearth {

/// The result of training, and the result of running the written file in predicted mode on the held-out text.
struct TrainingReport {
  std::string model, written;  // paths
  int64_t written_bytes = 0;
  int64_t predictor_weights = 0;
  double model_weights_share = 0;  // predictor weights as a share of the model's weights
  TrainResult result;
  double max_rise = 0;
  double served_perplexity = 0;  // perplexity with the written file in predicted mode
  double served_proposed = 0;    // share of neurons that is proposed
};

/// The path of the report's file: "FILE.training.json" beside the file with the predictors.
std::filesystem::path training_report_path(const std::filesystem::path& written);

std::string training_text(const TrainingReport& report);
/// One JSON object, with a line break.
std::string training_json(const TrainingReport& report);

}  // namespace hearth
