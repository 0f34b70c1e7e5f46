// The keys and tensors of a predictor file. See the header.
#include "engine/model/predictor_file.h"

#include <array>
#include <string>
#include <system_error>

#include "kernels/base/file_error.h"

namespace hearth {
namespace {

constexpr std::string_view kPredictorArchitecture = "hearth.predictors";

std::string remedy(const std::filesystem::path& model) {
  return "; make it with hearth-profiler train-predictors --side-file --model " + model.string() +
         " --text FILE, or remove it";
}

Matrix matrix(const ModelFile& file, const std::string& name, int64_t n_rows, int64_t n_cols) {
  const std::string label = file_error::file_label(file.path().string());
  const TensorInfo* tensor = file.find_tensor(name);
  if (tensor == nullptr)
    file_error::fail(label, "tensor " + file_error::quoted(name) + " is missing; the file is damaged");
  const std::array<int64_t, 4> expected{n_cols, n_rows, 1, 1};
  if (tensor->shape != expected) {
    file_error::fail(label, "tensor " + file_error::quoted(name) + " is [" +
                                std::to_string(tensor->shape[0]) + ", " + std::to_string(tensor->shape[1]) +
                                "], expected [" + std::to_string(n_cols) + ", " + std::to_string(n_rows) +
                                "]; the file is damaged");
  }
  return {tensor->data, tensor->dtype, n_rows, n_cols};
}

}  // namespace

std::filesystem::path predictor_file_path(const std::filesystem::path& model) {
  return model.string() + ".predictors.gguf";
}

std::optional<ModelFile> open_predictor_file(const ModelFile& model, ModelSpec& spec) {
  const std::filesystem::path path = predictor_file_path(model.path());
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::nullopt;
  ModelFile file = ModelFile::open(path);
  const std::string label = file_error::file_label(path.string());
  if (!file.has_key("general.architecture") ||
      file.get_string("general.architecture") != kPredictorArchitecture) {
    file_error::fail(label, "holds no predictors" + remedy(model.path()));
  }
  if (file.get_int("predictors.model_bytes") != static_cast<int64_t>(model.total_bytes()) ||
      file.get_int("predictors.block_count") != spec.n_layers ||
      file.get_int("predictors.embedding_length") != spec.d_model ||
      file.get_int("predictors.feed_forward_length") != spec.d_ff) {
    file_error::fail(
        label, "holds the predictors of another model than " + model.path().string() + remedy(model.path()));
  }
  spec.predictors = true;
  spec.sparse_threshold = 0;
  return file;
}

void add_predictor_keys(gguf::Writer& writer, const ModelFile& model, const ModelSpec& spec) {
  writer.key("general.architecture", kPredictorArchitecture);
  writer.key("predictors.model_bytes", static_cast<uint64_t>(model.total_bytes()));
  writer.key("predictors.block_count", static_cast<uint32_t>(spec.n_layers));
  writer.key("predictors.embedding_length", static_cast<uint32_t>(spec.d_model));
  writer.key("predictors.feed_forward_length", static_cast<uint32_t>(spec.d_ff));
}

void bind_predictors(const ModelFile& file, const ModelSpec& spec, Weights& weights) {
  for (int i = 0; i < spec.n_layers; ++i) {
    const std::string prefix = "blk." + std::to_string(i) + ".";
    const TensorInfo* in = file.find_tensor(prefix + "fc1.weight");
    const int64_t rank = in == nullptr ? 0 : in->shape[1];
    // The scratch buffers are large enough only for predictors that are at most as wide as the FFN.
    if (rank > spec.d_ff) {
      file_error::fail(file_error::file_label(file.path().string()),
                       "tensor " + file_error::quoted(prefix + "fc1.weight") + " has " +
                           std::to_string(rank) + " rows, expected a rank of at most the FFN's width, " +
                           std::to_string(spec.d_ff) + "; the file is damaged");
    }
    LayerWeights& layer = weights.layers[static_cast<size_t>(i)];
    layer.predictor_in = matrix(file, prefix + "fc1.weight", rank, spec.d_model);
    layer.predictor_out = matrix(file, prefix + "fc2.weight", spec.d_ff, rank);
  }
}

}  // namespace hearth
