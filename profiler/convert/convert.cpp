// Implements convert_checkpoint(): the order of a conversion's work.
#include "profiler/convert/convert.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <vector>

#include "engine/model/gguf/mapped_file.h"
#include "engine/model/gguf/writer.h"
#include "engine/model/model_file.h"
#include "engine/model/model_spec.h"
#include "engine/model/unknown_architecture.h"
#include "engine/model/weights.h"
#include "engine/tokenizer/tokenizer.h"
#include "kernels/base/file_error.h"
#include "kernels/quant/quantize.h"
#include "profiler/convert/checkpoint.h"
#include "profiler/convert/config.h"
#include "profiler/convert/dense_modules.h"
#include "profiler/convert/family.h"
#include "profiler/convert/layer_numbers.h"
#include "profiler/convert/rerank_head.h"
#include "profiler/convert/row_reader.h"
#include "profiler/convert/sampling_keys.h"
#include "profiler/convert/tensor_plan.h"
#include "profiler/convert/vocabulary_keys.h"

namespace hearth::convert {
namespace {

using nlohmann::json;

const Family& family_of(const Checkpoint& checkpoint) {
  const json& classes =
      checkpoint.config().contains("architectures") ? checkpoint.config()["architectures"] : json();
  const std::string name =
      classes.is_array() && !classes.empty() && classes[0].is_string() ? classes[0].get<std::string>() : "";
  const Config config(checkpoint.config(), "", checkpoint.label());
  if (const Family* family = find_family(name, config)) return *family;
  if (name.empty())
    checkpoint.fail(
        "config.json has no \"architectures\", expected the name of the model's class; download it again");
  checkpoint.fail("config.json says that the model is a " + file_error::quoted(name) +
                  ", which does not convert yet; docs/models.md "
                  "lists those that do");
}

/// Refuses quantized checkpoints unless conversion can read the weights of their quantization method.
void check_quantization(const Checkpoint& checkpoint, const Config& config) {
  const json& quantization = config.field({"quantization_config"});
  if (!quantization.is_object()) return;
  const json method = quantization.value("quant_method", json());
  if (method == "mxfp4" || method == "fp8") return;
  checkpoint.fail("its weights are quantized (" +
                  file_error::quoted(method.is_string() ? method.get<std::string>() : method.dump()) +
                  "), expected unquantized ones, MXFP4 or FP8; convert the model that it was made from");
}

void check_activation(const Config& config, const Family& family, KeyList& keys) {
  const std::string name =
      config.find_text({"hidden_activation", "hidden_act", "activation_function", "activation"});
  if (name.empty() || is_one_of(name, family.activations)) return;
  if (name == "relu") {
    keys.set("hearth.ffn_activation", "relu");
    return;
  }
  config.fail("the FFN's activation is " + file_error::quoted(name) + ", expected " +
              std::string(family.activations) + " or relu; such models do not run yet.");
}

DType type_of(const ConvertOptions& options, const Checkpoint& checkpoint) {
  if (options.type == "auto") {
    for (const StoredTensor& tensor : checkpoint.tensors()) {
      if (tensor.shape.size() < 2) continue;
      if (tensor.type == ElementType::kBF16) return DType::kBF16;
      if (tensor.type == ElementType::kF16) return DType::kF16;
    }
    return DType::kF16;
  }
  for (int i = 0; i < kDTypeCount; ++i) {
    std::string name(dtype_info(static_cast<DType>(i)).name);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (name == options.type && can_quantize(static_cast<DType>(i))) return static_cast<DType>(i);
  }
  throw std::runtime_error("--type is " + file_error::quoted(options.type) +
                           ", expected auto, f32, f16, bf16 or a type like q8_0.");
}

/// Returns the value of general.file_type. If any tensor is MXFP4, this is the number for MXFP4, because then
/// all large tensors have that type.
uint32_t file_type(DType type, const std::vector<PlannedTensor>& plan) {
  const bool has_mxfp4 = std::any_of(
      plan.begin(), plan.end(), [](const PlannedTensor& tensor) { return tensor.type == DType::kMXFP4; });
  return gguf::file_type_of(has_mxfp4 ? DType::kMXFP4 : type);
}

int64_t rows_of_embedding(const Checkpoint& checkpoint, const std::vector<PlannedTensor>& plan) {
  for (const PlannedTensor& tensor : plan) {
    if (tensor.name == "token_embd.weight" && tensor.shape.size() == 2) return tensor.shape[1];
  }
  checkpoint.fail("it has no embedding of tokens, expected a whole model (adapters do not convert)");
}

/// Makes the table of tokens' embeddings for each layer as long as the vocabulary. Gemma 3n's ends before the
/// tokens of images and sound, of which no text has one.
void pad_layer_embeddings(int64_t n_vocab, std::vector<PlannedTensor>& plan) {
  for (PlannedTensor& tensor : plan) {
    if (tensor.name != "per_layer_token_embd.weight" || tensor.shape.size() != 2) continue;
    tensor.n_zero_rows = std::max<int64_t>(0, n_vocab - tensor.shape[1]);
    tensor.shape[1] += tensor.n_zero_rows;
  }
}

int64_t blocks_of(const std::vector<PlannedTensor>& plan) {
  int64_t most = 0;
  for (const PlannedTensor& tensor : plan) {
    if (tensor.name.starts_with("blk."))
      most = std::max<int64_t>(most, std::stoll(tensor.name.substr(4)) + 1);
  }
  return most;
}

/// Adds the pooling type of a sentence-transformers model.
void add_pooling(const Checkpoint& checkpoint, KeyList& keys) {
  const json modules = checkpoint.read_json("modules.json");
  for (size_t i = 0; modules.is_array() && i < modules.size(); ++i) {
    const json& module = modules[i];
    if (!module.is_object() || !module.value("type", "").ends_with("Pooling")) continue;
    const std::string path = module.value("path", "");
    if (path.find("..") != std::string::npos || path.starts_with('/')) continue;
    const json pooling = checkpoint.read_json(path + "/config.json");
    if (!pooling.is_object()) continue;
    if (pooling.value("pooling_mode_mean_tokens", false)) return keys.count("pooling_type", 1);
    if (pooling.value("pooling_mode_cls_token", false)) return keys.count("pooling_type", 2);
    if (pooling.value("pooling_mode_lasttoken", false)) return keys.count("pooling_type", 3);
    checkpoint.fail("its pooling is not by mean, first or last token, and does not run yet");
  }
}

/// Returns a name for the model: the name of its folder. In the cache of Hugging Face's libraries, the
/// folder's name is only a hash (models--OWNER--NAME/snapshots/HASH), so this function returns NAME there.
std::string name_of(const std::filesystem::path& given) {
  std::filesystem::path folder = std::filesystem::absolute(given).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  const std::string repository = folder.parent_path().parent_path().filename().string();
  if (folder.parent_path().filename() == "snapshots" && repository.starts_with("models--")) {
    return repository.substr(repository.rfind("--") + 2);
  }
  return folder.filename().string();
}

KeyList keys_of(const ConvertOptions& options, const Checkpoint& checkpoint, const Config& config,
                const Family& family, DType type, const std::vector<PlannedTensor>& plan) {
  KeyList keys(family.architecture);
  keys.set("general.architecture", std::string(family.architecture));
  keys.set("general.type", "model");
  keys.set("general.name", options.name.empty() ? name_of(checkpoint.folder()) : options.name);
  if (!family.own_keys) add_common_keys(config, keys);
  if (family.keys != nullptr) family.keys(config, keys);
  check_activation(config, family, keys);
  const int64_t n_next = family.keeps_next_layers ? blocks_of(plan) - config.n_layers() : 0;
  if (n_next > 0) {
    keys.count("block_count", config.n_layers() + n_next);
    keys.count("nextn_predict_layers", n_next);
    // Arrays by layer cover these layers too, which have full attention.
    const std::string recurrent = std::string(family.architecture) + ".attention.recurrent_layers";
    if (const KeyList::Value* found = keys.find(recurrent)) {
      std::vector<bool> layers = std::get<std::vector<bool>>(*found);
      layers.resize(static_cast<size_t>(config.n_layers() + n_next));
      keys.set(recurrent, std::move(layers));
    }
  }
  add_layer_numbers(checkpoint, config, family, keys);
  add_pooling(checkpoint, keys);
  add_sampling_keys(checkpoint, keys);
  keys.set("general.file_type", file_type(type, plan));
  keys.set("general.quantization_version", uint32_t{2});
  add_vocabulary_keys(checkpoint, config, family, rows_of_embedding(checkpoint, plan), options.pre, keys);
  return keys;
}

/// Loads the written header with the engine's own functions, so that a model that would not run is refused
/// before hours of writing.
void check_runs(gguf::Writer& writer, const Checkpoint& checkpoint) {
  try {
    const ModelFile file = ModelFile::open(writer.preview());
    const ModelSpec spec = read_model_spec(file, "");
    bind_weights(file, spec);
    Tokenizer::from_model(file);
  } catch (const ModelFileError& error) {
    checkpoint.fail("the file made of it would not run: " + std::string(error.what()));
  }
}

/// Refuses to write over one of the checkpoint's files, because --force would then destroy its weights.
void check_out(const ConvertOptions& options, const Checkpoint& checkpoint) {
  std::error_code error;
  if (!std::filesystem::exists(options.out, error) || options.out.extension() == ".gguf") return;
  for (std::filesystem::directory_iterator at(checkpoint.folder(), error), end; !error && at != end;
       at.increment(error)) {
    std::error_code unreadable;
    if (std::filesystem::equivalent(*at, options.out, unreadable))
      checkpoint.fail("--out names " + file_error::quoted(at->path().filename().string()) +
                      ", a file of the checkpoint itself; give a new name that ends in .gguf");
  }
}

float changed(float x, Change change) {
  switch (change) {
    case Change::kNone:
      return x;
    case Change::kPlusOne:
      return x + 1.0f;
    case Change::kMinusExp:
      return static_cast<float>(-std::exp(double{x}));
  }
  return x;
}

void write_tensor(gguf::Writer& writer, const PlannedTensor& tensor,
                  const std::function<void(uint64_t)>& done, uint64_t& n_beyond_half) {
  constexpr float kMostHalf = 65520.0f;  // the least number that F16 rounds to infinity
  if (tensor.parts.empty()) writer.write(std::as_bytes(std::span(tensor.values)));
  std::vector<float> x;
  std::vector<std::byte> row;
  auto factor = tensor.factors.begin();
  int64_t n_before = 0;  // rows of earlier parts
  for (const RowView& view : tensor.parts) {
    x.resize(static_cast<size_t>(view.n_cols));
    row.resize(row_bytes(tensor.type, view.n_cols));
    for (int64_t i = 0; i < view.n_rows; ++i) {
      if (view.mxfp4) {
        read_mxfp4_row(view, i, row.data());
      } else {
        read_row(view, i, x.data());
        while (factor != tensor.factors.end() && n_before + i >= factor->end_row) ++factor;
        const float times = factor == tensor.factors.end() ? 1.0f : factor->factor;
        for (float& one : x) one = changed(one, tensor.change) * times;
        if (tensor.type != DType::kF32 && tensor.type != DType::kBF16) {
          for (const float one : x) n_beyond_half += std::isfinite(one) && std::abs(one) >= kMostHalf ? 1 : 0;
        }
        quantize_row(tensor.type, x.data(), view.n_cols, row.data());
      }
      writer.write(row);
      done(row.size());
    }
    n_before += view.n_rows;
    gguf::release(view.source->bytes);
  }
  if (tensor.n_zero_rows == 0) return;
  const int64_t n_cols = tensor.shape[0];
  x.assign(static_cast<size_t>(n_cols), 0.0f);
  row.resize(row_bytes(tensor.type, n_cols));
  quantize_row(tensor.type, x.data(), n_cols, row.data());
  for (int64_t i = 0; i < tensor.n_zero_rows; ++i) writer.write(row);
}

}  // namespace

namespace {

ConvertResult convert_opened(const Checkpoint& checkpoint, const ConvertOptions& options,
                             const std::function<void(double)>& progress) {
  // 1. Find the model's family.
  const Family& family = family_of(checkpoint);
  const Config config(checkpoint.config(), family.defaults, checkpoint.label());
  check_quantization(checkpoint, config);
  check_out(options, checkpoint);

  // 2. Plan the file's contents.
  ConvertResult result;
  result.architecture = family.architecture;
  result.type = type_of(options, checkpoint);
  std::vector<PlannedTensor> plan = plan_tensors(checkpoint, config, family, result.type);
  KeyList keys = keys_of(options, checkpoint, config, family, result.type, plan);
  pad_layer_embeddings(rows_of_embedding(checkpoint, plan), plan);
  const std::string name = options.name.empty() ? name_of(checkpoint.folder()) : options.name;
  if (is_qwen3_reranker(checkpoint, family, name)) add_rerank_head(checkpoint, plan, keys);
  std::optional<DenseModules> modules;
  if (family.dense_modules) modules.emplace(checkpoint).add(result.type, plan, keys);
  gguf::Writer writer(options.out, {.replace = options.replace});
  keys.write(writer);
  for (const PlannedTensor& tensor : plan) writer.tensor(tensor.name, tensor.type, tensor.shape);

  // 3. Check that the model would run, then write the tensors' bytes.
  writer.begin_data();
  result.n_tensors = plan.size();
  result.n_elements = planned_elements(plan);
  result.file_bytes = writer.file_bytes();
  if (const KeyList::Value* pre = keys.find("tokenizer.ggml.pre")) result.pre = std::get<std::string>(*pre);
  uint64_t written = 0;
  bool checked = false;
  for (const PlannedTensor& tensor : plan) {
    // Call check_runs() before the first tensor that comes from the checkpoint is written. The RoPE factors,
    // which check_runs() reads, do not come from the checkpoint and were written before.
    if (!checked && !tensor.parts.empty()) {
      check_runs(writer, checkpoint);
      checked = true;
    }
    write_tensor(
        writer, tensor,
        [&](uint64_t n) {
          written += n;
          if (progress)
            progress(std::min(1.0, static_cast<double>(written) / static_cast<double>(result.file_bytes)));
        },
        result.n_beyond_half);
  }
  writer.commit();
  return result;
}

}  // namespace

ConvertResult convert_checkpoint(const ConvertOptions& options, const std::function<void(double)>& progress) {
  const Checkpoint checkpoint(options.folder);
  try {
    return convert_opened(checkpoint, options, progress);
  } catch (const json::exception& error) {
    checkpoint.fail("a value in one of its JSON files has an unexpected type (" + std::string(error.what()) +
                    "); download the files again");
  }
}

}  // namespace hearth::convert
