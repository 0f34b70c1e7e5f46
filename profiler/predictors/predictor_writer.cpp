// First declares the tensors, then writes their bytes.
#include "profiler/predictors/predictor_writer.h"

#include <string>
#include <string_view>
#include <vector>

#include "engine/model/ffn_activation.h"
#include "engine/model/gguf/gguf_value.h"
#include "engine/model/gguf/writer.h"
#include "engine/model/predictor_file.h"
#include "kernels/quant/dequantize.h"
#include "kernels/quant/quantize.h"

namespace hearth {
namespace {

constexpr std::string_view kDown = "ffn_down.";

bool is_down(std::string_view name) { return name.find(kDown) != std::string_view::npos; }
bool is_predictor(std::string_view name) {
  return name.find(".fc1.") != std::string_view::npos || name.find(".fc2.") != std::string_view::npos;
}

/// blk.0.ffn_down.bias -> blk.0.ffn_down_t.bias
std::string turned_name(std::string_view name) {
  std::string turned(name);
  return turned.replace(turned.find(kDown), kDown.size(), "ffn_down_t.");
}

/// Returns `type`, or F16 if rows of n_cols are not whole weight blocks of `type` or Hearth cannot quantize
/// to it.
DType type_for(DType type, int64_t n_cols) {
  return can_quantize(type) && n_cols % dtype_info(type).block_elems == 0 ? type : DType::kF16;
}

std::vector<int64_t> shape_of(const TensorInfo& tensor) {
  return {tensor.shape.begin(), tensor.shape.begin() + tensor.n_dims};
}

/// Declares the tensors of all layers' predictors: fc1 with `rank` rows of d_model, and fc2 with d_ff rows of
/// `rank`.
void announce(gguf::Writer& writer, const ModelSpec& spec, const PredictorSource& predictors, DType type) {
  for (size_t l = 0; l < predictors.ranks.size(); ++l) {
    const std::string prefix = "blk." + std::to_string(l) + ".";
    const int64_t rank = predictors.ranks[l];
    writer.tensor(prefix + "fc1.weight", type_for(type, spec.d_model), {spec.d_model, rank});
    writer.tensor(prefix + "fc2.weight", type_for(type, rank), {rank, spec.d_ff});
  }
}

void write_rows(gguf::Writer& writer, DType type, const float* values, int64_t n_rows, int64_t n_cols) {
  std::vector<std::byte> row(row_bytes(type, n_cols));
  for (int64_t r = 0; r < n_rows; ++r) {
    quantize_row(type, values + r * n_cols, n_cols, row.data());
    writer.write(row);
  }
}

/// Writes the declared tensors of all predictors. Calls `done` after each layer.
void write_predictors(gguf::Writer& writer, const PredictorSource& predictors, DType type,
                      const std::function<void()>& done) {
  for (int l = 0; l < static_cast<int>(predictors.ranks.size()); ++l) {
    const PredictorNet net = predictors.make(l);
    write_rows(writer, type_for(type, net.d_model), net.in.data(), net.rank, net.d_model);
    write_rows(writer, type_for(type, net.rank), net.out.data(), net.d_ff, net.rank);
    done();
  }
}

/// Transposes a down projection [d_model, d_ff] to [d_ff, d_model], and writes it.
void write_turned(gguf::Writer& writer, const TensorInfo& down) {
  const int64_t n_cols = down.shape[0], n_rows = down.shape[1];
  std::vector<float> row(static_cast<size_t>(n_cols));
  std::vector<float> turned(static_cast<size_t>(n_cols * n_rows));
  for (int64_t r = 0; r < n_rows; ++r) {
    dequantize_row(down.dtype, down.data + static_cast<size_t>(r) * row_bytes(down.dtype, n_cols), n_cols,
                   row.data());
    for (int64_t c = 0; c < n_cols; ++c)
      turned[static_cast<size_t>(c * n_rows + r)] = row[static_cast<size_t>(c)];
  }
  write_rows(writer, type_for(down.dtype, n_rows), turned.data(), n_cols, n_rows);
}

void copy_keys(gguf::Writer& writer, const ModelFile& model, const ModelSpec& spec, float threshold) {
  for (const std::string_view key : model.keys()) {
    const bool of_this_file = key.starts_with("split.") || key == "general.alignment";
    if (!of_this_file && key != "powerinfer.sparse_threshold") writer.key(key, *model.find_value(key));
  }
  writer.key("powerinfer.sparse_threshold", threshold);
  // If the model's file does not name the activation, write the one that the user named.
  if (!model.has_key("hearth.ffn_activation")) {
    writer.key("hearth.ffn_activation", ffn_activation_name(spec.activation));
  }
}

}  // namespace

DType default_predictor_type(const ModelFile& model) {
  const TensorInfo* up = model.find_tensor("blk.0.ffn_up.weight");
  const bool usable = up != nullptr && can_quantize(up->dtype) && up->dtype != DType::kF32 &&
                      up->dtype != DType::kBF16 &&
                      up->dtype != DType::kMXFP4;  // MXFP4's values are too coarse for predictors
  return usable ? up->dtype : DType::kF16;
}

DType predictor_type(std::string_view name, const ModelFile& model) {
  if (name == "f16") return DType::kF16;
  if (name == "q8_0") return DType::kQ8_0;
  if (name == "q4_0") return DType::kQ4_0;
  return default_predictor_type(model);
}

std::string why_no_powerinfer_file(const ModelSpec& spec) {
  if (!spec.arch.powerinfer_activation) {
    return "PowerInfer has no sparse form of architecture " + std::string(spec.arch.name);
  }
  // The activation may be a relu with a threshold. PowerInfer ignores this threshold, but Hearth reads it
  // from the key hearth.ffn_activation.
  if (spec.arch.powerinfer_activation->kind == spec.activation.kind) return "";
  return "PowerInfer runs architecture " + std::string(spec.arch.name) + " with " +
         ffn_activation_name(*spec.arch.powerinfer_activation) + ", and this model has " +
         ffn_activation_name(spec.activation);
}

void write_predictor_file(const ModelFile& model, const ModelSpec& spec, const PredictorSource& predictors,
                          DType type) {
  gguf::Writer writer(predictor_file_path(model.path()), {.replace = true});
  add_predictor_keys(writer, model, spec);
  announce(writer, spec, predictors, type);
  writer.begin_data();
  write_predictors(writer, predictors, type, [] {});
  writer.commit();
}

void write_powerinfer_file(const std::filesystem::path& path, const ModelFile& model, const ModelSpec& spec,
                           const PredictorSource& predictors, DType type, bool replace,
                           const std::function<void(double)>& progress) {
  gguf::Writer writer(path, {.magic = "PWRI", .replace = replace});
  copy_keys(writer, model, spec, predictors.threshold);
  // 1. Announce all tensors.
  std::vector<const TensorInfo*> tensors;
  for (const TensorInfo& tensor : model.tensors()) {
    if (is_predictor(tensor.name)) continue;
    tensors.push_back(&tensor);
    if (!is_down(tensor.name)) {
      writer.tensor(tensor.name, tensor.dtype, shape_of(tensor));
    } else if (tensor.n_dims == 1) {
      writer.tensor(turned_name(tensor.name), tensor.dtype, shape_of(tensor));
    } else {
      writer.tensor(turned_name(tensor.name), type_for(tensor.dtype, tensor.shape[1]),
                    {tensor.shape[1], tensor.shape[0]});
    }
  }
  // Add an output matrix if it is missing, because PowerInfer uses the embedding as output matrix only for
  // OPT.
  const TensorInfo* embedding = model.find_tensor("token_embd.weight");
  const bool add_output = spec.arch.name != "opt" && model.find_tensor("output.weight") == nullptr;
  if (add_output) writer.tensor("output.weight", embedding->dtype, shape_of(*embedding));
  announce(writer, spec, predictors, type);

  // 2. Write the tensors' bytes, in the same order.
  writer.begin_data();
  const double n_all = static_cast<double>(tensors.size() + predictors.ranks.size());
  double n_done = 0;
  const auto done = [&] {
    if (progress) progress(++n_done / n_all);
  };
  for (const TensorInfo* tensor : tensors) {
    if (is_down(tensor->name) && tensor->n_dims > 1) {
      write_turned(writer, *tensor);
    } else {
      writer.write({tensor->data, tensor->bytes});
    }
    done();
  }
  if (add_output) writer.write({embedding->data, embedding->bytes});
  write_predictors(writer, predictors, type, done);
  writer.commit();
}

}  // namespace hearth
