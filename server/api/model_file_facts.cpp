// See the header.
#include "server/api/model_file_facts.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "engine/model/gguf/gguf_value.h"
#include "engine/model/model_identity.h"
#include "kernels/dtype.h"

namespace hearth {
namespace {

int64_t elements_of(const TensorInfo& tensor) {
  return tensor.shape[0] * tensor.shape[1] * tensor.shape[2] * tensor.shape[3];
}

std::string most_used_type(const ModelFile& file) {
  std::array<int64_t, kDTypeCount> elements{};
  for (const TensorInfo& tensor : file.tensors())
    elements[static_cast<size_t>(tensor.dtype)] += elements_of(tensor);
  const auto most = std::ranges::max_element(elements) - elements.begin();
  return std::string(dtype_info(static_cast<DType>(most)).name);
}

int64_t modification_time(const std::filesystem::path& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 ? static_cast<int64_t>(status.st_mtime) : 0;
}

Json value_of(const ModelFile& file, std::string_view key) {
  const gguf::Value& value = *file.find_value(key);
  if (value.type == gguf::ValueType::kString) return std::string(file.get_string(key));
  if (value.type == gguf::ValueType::kBool) return *file.find_bool(key);
  if (const std::optional<int64_t> n = gguf::integer_at(value.type, value.bytes.data())) return *n;
  if (const std::optional<double> x = gguf::float_at(value.type, value.bytes.data())) return *x;
  return nullptr;
}

}  // namespace

ModelFileFacts read_model_file_facts(const ModelFile& file, const ModelSpec& spec) {
  ModelFileFacts facts;
  facts.architecture = spec.arch.name;
  facts.quantization = most_used_type(file);
  facts.digest = hex_text(content_hash(file));
  for (const TensorInfo& tensor : file.tensors()) facts.n_parameters += elements_of(tensor);
  facts.file_bytes = static_cast<int64_t>(file.total_bytes());
  facts.modified = modification_time(file.path());
  facts.generates = !spec.arch.looks_ahead && spec.n_scores == 0;
  for (const std::string_view key : file.keys())
    if (key != "tokenizer.chat_template") facts.keys.push_back({std::string(key), value_of(file, key)});
  facts.keys["general.parameter_count"] = facts.n_parameters;
  return facts;
}

}  // namespace hearth
