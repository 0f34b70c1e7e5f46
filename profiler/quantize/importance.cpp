// Reads the three kinds of files.
#include "profiler/quantize/importance.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/activity/activity_file.h"
#include "engine/model/gguf/cursor.h"
#include "engine/model/gguf/mapped_file.h"
#include "engine/model/gguf/part.h"
#include "engine/model/model_identity.h"
#include "kernels/base/file_error.h"
#include "kernels/quant/dequantize.h"

namespace hearth {

using Columns = std::map<std::string, std::vector<float>, std::less<>>;

std::map<std::string, std::vector<float>, std::less<>> read_old_importance(std::span<const std::byte> bytes,
                                                                           const std::string& file) {
  // The file begins with the number of entries. Each entry has a name, the number of runs whose values were
  // summed, and the sums. The rest of the file describes the text and is not read.
  gguf::Cursor cursor(bytes, file);
  cursor.enter("importance matrix");
  const auto count = [&cursor](const char* what, int32_t least) {
    const int32_t n = cursor.read<int32_t>();
    if (n < least)
      cursor.fail("has " + std::to_string(n) + " " + what + ": the file is damaged or of another kind");
    return static_cast<uint64_t>(n);
  };
  Columns columns;
  const uint64_t n_entries = count("entries", 1);
  for (uint64_t i = 0; i < n_entries; ++i) {
    cursor.enter("importance entry", i);
    const std::span<const std::byte> name = cursor.take(count("bytes of name", 1));
    const float n_runs = static_cast<float>(std::max<uint64_t>(1, count("runs", 0)));
    const uint64_t n_values = count("values", 1);
    const std::span<const std::byte> values = cursor.take(n_values * sizeof(float));
    std::vector<float> means(n_values);
    std::memcpy(means.data(), values.data(), values.size());
    for (float& mean : means) mean /= n_runs;
    columns[std::string(reinterpret_cast<const char*>(name.data()), name.size())] = std::move(means);
  }
  return columns;
}

namespace {

/// Reads the tensors NAME.in_sum2 [n_cols, matrices] and NAME.counts [1, matrices].
Columns read_gguf_importance(const std::filesystem::path& path, const std::string& file) {
  constexpr std::string_view kSums = ".in_sum2";
  const ModelFile importance = ModelFile::open(path);
  Columns columns;
  for (const TensorInfo& sums : importance.tensors()) {
    if (!sums.name.ends_with(kSums)) continue;
    const std::string name(sums.name.substr(0, sums.name.size() - kSums.size()));
    const TensorInfo* counts = importance.find_tensor(name + ".counts");
    const int64_t n_cols = sums.shape[0], n_matrices = sums.shape[1];
    if (counts == nullptr || counts->dtype != DType::kF32 || sums.dtype != DType::kF32 || sums.n_dims > 2 ||
        static_cast<int64_t>(counts->bytes / sizeof(float)) != n_matrices) {
      file_error::fail(
          file, "tensor " + file_error::quoted(sums.name) +
                    " has no matching counts, expected an importance matrix as llama-imatrix writes it");
    }
    std::vector<float> means(sums.bytes / sizeof(float)), n(static_cast<size_t>(n_matrices));
    std::memcpy(means.data(), sums.data, sums.bytes);
    std::memcpy(n.data(), counts->data, counts->bytes);
    for (size_t i = 0; i < means.size(); ++i) means[i] /= std::max(1.0f, n[i / static_cast<size_t>(n_cols)]);
    columns[name] = std::move(means);
  }
  return columns;
}

/// Returns a number proportional to the mean square of each neuron's activations. Activity files do not hold
/// single activations, so all nonzero activations of a neuron are assumed to be equally large. The true mean
/// squares are larger, by a factor that is about equal for all neurons.
Columns read_activity_importance(const std::filesystem::path& path, const std::string& file,
                                 const ModelFile& model, std::string_view ffn_activation) {
  const Activity activity = read_activity(path);
  require_same_model(activity, identify(model, read_model_spec(model, ffn_activation)), file);
  const ActivityCounts total = activity.total();
  if (total.of_experts()) {
    file_error::fail(file,
                     "it has the activity of experts, expected that of neurons: whole experts are not "
                     "columns; take an importance matrix");
  }
  Columns columns;
  for (int layer = 0; layer < total.n_layers; ++layer) {
    std::vector<float> squares(static_cast<size_t>(total.d_ff));
    for (int neuron = 0; neuron < total.d_ff; ++neuron) {
      const size_t at = total.index(layer, neuron);
      const double n = total.active[at], sum = static_cast<double>(total.value_sums[at]);
      squares[static_cast<size_t>(neuron)] = static_cast<float>(sum > 0 && n > 0 ? sum / n * sum : n);
    }
    columns["blk." + std::to_string(layer) + ".ffn_down.weight"] = std::move(squares);
  }
  return columns;
}

}  // namespace

Importance Importance::read(const std::filesystem::path& path, const ModelFile& model,
                            std::string_view ffn_activation) {
  const std::string file = file_error::file_label(path.string());
  const gguf::MappedFile mapped = gguf::MappedFile::open(path, "an activity file or an importance matrix");
  const std::string_view magic(reinterpret_cast<const char*>(mapped.bytes().data()),
                               std::min<size_t>(4, mapped.bytes().size()));
  const bool activity = magic == "HACT";
  Importance importance;
  importance.columns_ = activity          ? read_activity_importance(path, file, model, ffn_activation)
                        : magic == "GGUF" ? read_gguf_importance(path, file)
                                          : read_old_importance(mapped.bytes(), file);
  // Ignore entries for tensors that the model does not have. They may come from a variant of the model that
  // differs in whether the output is tied to the embedding.
  size_t n_known = 0;
  for (const auto& [name, values] : importance.columns_) {
    const TensorInfo* tensor = model.find_tensor(name);
    if (tensor == nullptr) continue;
    const uint64_t n_cols = static_cast<uint64_t>(tensor->shape[0]);
    const uint64_t expected = n_cols * static_cast<uint64_t>(tensor->shape[2] * tensor->shape[3]);
    if (values.size() != expected) {
      file_error::fail(file, "tensor " + file_error::quoted(name) + " has " +
                                 file_error::with_commas(values.size()) + " values, expected " +
                                 file_error::with_commas(expected) + ": it belongs to another model");
    }
    if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value) && value >= 0.0f; })) {
      file_error::fail(file, "tensor " + file_error::quoted(name) +
                                 " has an importance that is negative or not a number: make it again");
    }
    ++n_known;
  }
  if (n_known == 0) {
    file_error::fail(
        file, activity
                  ? "it says nothing about the model's matrices: PowerInfer's files store down projections "
                    "by neuron, so that activity is about rows; quantize without --importance"
                  : "it names no tensor of the model: it belongs to another model");
  }
  importance.sentence_ = (activity ? "activity of " : "importance of ") + std::to_string(n_known) +
                         (activity ? " down projections" : " tensors");
  return importance;
}

std::span<const float> Importance::of(const TensorInfo& tensor, int64_t matrix) const {
  const auto found = columns_.find(tensor.name);
  if (found == columns_.end()) return {};
  const size_t n_cols = static_cast<size_t>(tensor.shape[0]);
  return std::span(found->second).subspan(static_cast<size_t>(matrix) * n_cols, n_cols);
}

}  // namespace hearth
