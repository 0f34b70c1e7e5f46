// Reads one layer's file at a time.
#include "profiler/predictors/imported_predictors.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "engine/model/gguf/mapped_file.h"
#include "kernels/base/file_error.h"
#include "kernels/base/whole_file.h"
#include "profiler/convert/checkpoint_json.h"
#include "profiler/import/torch_tensor.h"

namespace hearth {
namespace {

namespace fs = std::filesystem;

fs::path layer_path(const fs::path& folder, int layer) {
  return folder / ("model_" + std::to_string(layer) + ".pt");
}

std::string sizes_text(int64_t n_rows, int64_t n_cols) {
  return "[" + file_error::with_commas(static_cast<uint64_t>(n_rows)) + ", " +
         file_error::with_commas(static_cast<uint64_t>(n_cols)) + "]";
}

TorchMatrix& matrix_of(std::vector<TorchMatrix>& state, const char* name, const std::string& file) {
  const auto found = std::ranges::find(state, name, &TorchMatrix::name);
  if (found == state.end()) {
    file_error::fail(file, "it has no tensor \"" + std::string(name) +
                               "\", expected a predictor of fc1.weight and fc2.weight");
  }
  return *found;
}

PredictorNet read_layer(const fs::path& folder, int layer, const ModelSpec& spec, bool with_values) {
  const fs::path path = layer_path(folder, layer);
  const std::string file = file_error::file_label(path.string());
  const gguf::MappedFile mapped = gguf::MappedFile::open(path, "a predictor that PyTorch saved");
  std::vector<TorchMatrix> state = read_torch_state(mapped.bytes(), file, with_values);
  TorchMatrix& in = matrix_of(state, "fc1.weight", file);
  TorchMatrix& out = matrix_of(state, "fc2.weight", file);
  const auto check = [&](const TorchMatrix& matrix, int64_t n_rows, int64_t n_cols) {
    if (matrix.n_rows == n_rows && matrix.n_cols == n_cols) return;
    file_error::fail(file, matrix.name + " is " + sizes_text(matrix.n_rows, matrix.n_cols) + ", expected " +
                               sizes_text(n_rows, n_cols) + " for a model of width " +
                               std::to_string(spec.d_model) + " with " + std::to_string(spec.d_ff) +
                               " neurons a layer: it belongs to another model");
  };
  constexpr int64_t kHighestRank = 1 << 20;
  if (in.n_rows < 1 || in.n_rows > kHighestRank)
    file_error::fail(file, "fc1.weight has no rows, or too many");
  check(in, in.n_rows, spec.d_model);
  check(out, spec.d_ff, in.n_rows);
  for (const TorchMatrix* matrix : {&in, &out}) {
    if (!std::ranges::all_of(matrix->values, [](float value) { return std::isfinite(value); })) {
      file_error::fail(
          file, matrix->name + " has a weight that is not a finite number: it is damaged; download it again");
    }
  }
  PredictorNet net;
  net.d_model = static_cast<int>(spec.d_model);
  net.rank = static_cast<int>(in.n_rows);
  net.d_ff = static_cast<int>(spec.d_ff);
  net.in = std::move(in.values);
  net.out = std::move(out.values);
  return net;
}

float read_threshold(const fs::path& folder) {
  const fs::path path = folder / "config.json";
  std::error_code error;
  if (!fs::exists(path, error)) return 0.0f;
  constexpr size_t kMostBytes = size_t{1} << 20;
  const nlohmann::json config = convert::parsed_json(read_whole_file(path, kMostBytes));
  const std::string file = file_error::file_label(path.string());
  if (!config.is_object()) file_error::fail(file, "it is not a JSON object; download it again, or remove it");
  const auto found = config.find("sparse_threshold");
  if (found == config.end()) return 0.0f;
  const float threshold = found->is_number() ? found->get<float>() : NAN;
  if (!std::isfinite(threshold)) {
    const std::string what = found->is_string() ? found->get<std::string>() : found->dump();
    file_error::fail(file, "sparse_threshold is " + file_error::quoted(what) + ", expected a number");
  }
  return threshold;
}

}  // namespace

PredictorSource import_predictors(const fs::path& folder, const ModelSpec& spec) {
  const std::string label = file_error::file_label(folder.string());
  std::error_code error;
  if (!fs::is_directory(folder, error)) file_error::fail(label, "there is no such folder; check the path");
  const int n_layers = static_cast<int>(spec.n_layers);
  if (fs::exists(layer_path(folder, n_layers), error)) {
    file_error::fail(label, "it has a predictor for layer " + std::to_string(n_layers) +
                                ", but the model's layers end at " + std::to_string(n_layers - 1) +
                                ": it belongs to another model");
  }
  PredictorSource source;
  for (int layer = 0; layer < n_layers; ++layer) {
    source.ranks.push_back(read_layer(folder, layer, spec, false).rank);
  }
  source.make = [folder, &spec](int layer) { return read_layer(folder, layer, spec, true); };
  source.threshold = read_threshold(folder);
  return source;
}

}  // namespace hearth
