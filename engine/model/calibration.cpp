// Reads and writes the calibration file, a GGUF container that has keys but no tensors.
#include "engine/model/calibration.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <system_error>

#include "engine/model/gguf/writer.h"
#include "kernels/base/file_error.h"

namespace hearth {
namespace {

constexpr std::string_view kCalibrationArchitecture = "hearth.calibration";

/// Identifies the model that a calibration belongs to. A calibration depends on the FFN weights. Their shape
/// and the file's size are compared instead of the weights themselves.
struct Identity {
  Identity(const ModelFile& model, const ModelSpec& spec)
      : model_bytes(static_cast<int64_t>(model.total_bytes())), n_layers(spec.n_layers), d_ff(spec.d_ff) {}
  int64_t model_bytes, n_layers, d_ff;
};

}  // namespace

std::filesystem::path calibration_path(const std::filesystem::path& model) {
  return model.string() + ".calibration";
}

Calibration read_calibration(const ModelFile& model, const ModelSpec& spec) {
  const std::filesystem::path path = calibration_path(model.path());
  const std::string label = file_error::file_label(path.string());
  const std::string remedy =
      "; make it with hearth-profiler calibrate --model " + model.path().string() + " --text FILE";
  std::error_code error;
  if (!std::filesystem::exists(path, error) && !error) {
    file_error::fail(
        file_error::file_label(model.path().string()),
        "--sparsity calibrated needs the thresholds of " + path.string() + ", which does not exist" + remedy);
  }
  const ModelFile file = ModelFile::open(path);
  if (file.get_string("general.architecture") != kCalibrationArchitecture)
    file_error::fail(label, "is not a calibration" + remedy);
  const Identity own(model, spec);
  if (file.get_int("calibration.model_bytes") != own.model_bytes ||
      file.get_int("calibration.block_count") != own.n_layers ||
      file.get_int("calibration.feed_forward_length") != own.d_ff) {
    file_error::fail(label, "is the calibration of another model than " + model.path().string() + remedy);
  }
  const std::optional<std::vector<float>> thresholds = file.find_floats("calibration.thresholds");
  // NaN also fails the comparison.
  if (!thresholds || static_cast<int>(thresholds->size()) != spec.n_layers ||
      !std::ranges::all_of(*thresholds, [](float t) { return t >= 0.0f && std::isfinite(t); })) {
    file_error::fail(label, "key \"calibration.thresholds\" is not " + std::to_string(spec.n_layers) +
                                " numbers from 0 on, one for each layer; the file is damaged" + remedy);
  }
  return {.thresholds = *thresholds,
          .text_sha256 = std::string(file.get_string("calibration.text_sha256")),
          .fidelity_budget = file.get_float("calibration.fidelity_budget"),
          .dense_perplexity = file.get_float("calibration.dense_perplexity"),
          .perplexity = file.get_float("calibration.perplexity"),
          .skipped = file.get_float("calibration.skipped")};
}

void write_calibration(const ModelFile& model, const ModelSpec& spec, const Calibration& calibration) {
  const Identity own(model, spec);
  gguf::Writer writer(calibration_path(model.path()), {.replace = true});
  writer.key("general.architecture", kCalibrationArchitecture);
  writer.key("calibration.model_bytes", own.model_bytes);
  writer.key("calibration.block_count", own.n_layers);
  writer.key("calibration.feed_forward_length", own.d_ff);
  writer.key("calibration.text_sha256", calibration.text_sha256);
  writer.key("calibration.fidelity_budget", calibration.fidelity_budget);
  writer.key("calibration.dense_perplexity", calibration.dense_perplexity);
  writer.key("calibration.perplexity", calibration.perplexity);
  writer.key("calibration.skipped", calibration.skipped);
  writer.array("calibration.thresholds", std::span<const float>(calibration.thresholds));
  writer.begin_data();
  writer.commit();
}

}  // namespace hearth
