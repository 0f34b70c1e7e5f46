// Implements Checkpoint: finds and opens the files in a checkpoint's folder.
#include "profiler/convert/checkpoint.h"

#include <algorithm>
#include <deque>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <unordered_map>

#include "engine/model/gguf/mapped_file.h"
#include "kernels/base/file_error.h"
#include "kernels/base/whole_file.h"
#include "profiler/convert/checkpoint_json.h"

namespace hearth::convert {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {
// The maximum size of a JSON or tokenizer file in bytes. The largest tokenizer.json that exists has 35 MB.
constexpr size_t kMaxSmallFile = size_t{512} << 20;
}  // namespace

struct Checkpoint::Contents {
  json config;
  std::deque<std::string> labels;  // tensors point at them
  std::vector<gguf::MappedFile> files;
  std::vector<StoredTensor> tensors;
  std::unordered_map<std::string_view, size_t> by_name;
};

Checkpoint::~Checkpoint() = default;

void Checkpoint::fail(const std::string& sentence) const {
  throw std::runtime_error(label_ + ": " + sentence + ".");
}

namespace {

/// Returns the names of the files with weights. Adds the names of the tensors that the index file lists to
/// `promised`. Without an index file, adds none.
std::vector<std::string> weight_files(const Checkpoint& checkpoint, std::set<std::string>& promised) {
  const json index = checkpoint.read_json("model.safetensors.index.json");
  if (index.is_null()) {
    if (fs::exists(checkpoint.folder() / "model.safetensors")) return {"model.safetensors"};
    const bool pickled = fs::exists(checkpoint.folder() / "pytorch_model.bin") ||
                         fs::exists(checkpoint.folder() / "pytorch_model.bin.index.json");
    checkpoint.fail(
        pickled
            ? "its weights are pickled (pytorch_model.bin), expected model.safetensors; save the model with "
              "save_pretrained(safe_serialization=True) or download its safetensors version"
            : "it has neither model.safetensors nor model.safetensors.index.json, expected the folder of a "
              "Hugging Face model; download all of its files");
  }
  if (!index.contains("weight_map") || !index["weight_map"].is_object() || index["weight_map"].empty()) {
    checkpoint.fail("model.safetensors.index.json has no weight_map; download it again");
  }
  std::set<std::string> files;
  for (const auto& [tensor, file] : index["weight_map"].items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (name.empty() || name.find('/') != std::string::npos || name == "..") {
      checkpoint.fail("model.safetensors.index.json names a file " + file_error::quoted(name) +
                      ", expected one of the folder");
    }
    files.insert(name);
    promised.insert(tensor);
  }
  return {files.begin(), files.end()};
}

}  // namespace

Checkpoint::Checkpoint(fs::path folder)
    : folder_(std::move(folder)),
      label_(file_error::file_label(folder_.string())),
      contents_(std::make_unique<Contents>()) {
  std::error_code error;
  if (!fs::is_directory(folder_, error))
    fail("there is no such folder, expected that of a Hugging Face model");
  contents_->config = read_json("config.json");
  if (!contents_->config.is_object())
    fail("it has no config.json, expected the folder of a Hugging Face model");
  std::set<std::string> promised;
  for (const std::string& name : weight_files(*this, promised)) {
    if (!fs::exists(folder_ / name))
      fail("the file " + file_error::quoted(name) + " is missing; download all of its files");
    contents_->labels.push_back(file_error::file_label((folder_ / name).string()));
    contents_->files.push_back(gguf::MappedFile::open(folder_ / name, "a safetensors file"));
    for (StoredTensor& tensor : read_safetensors(contents_->files.back().bytes(), contents_->labels.back())) {
      contents_->tensors.push_back(std::move(tensor));
    }
  }
  for (size_t i = 0; i < contents_->tensors.size(); ++i) {
    const std::string& name = contents_->tensors[i].name;
    if (!contents_->by_name.emplace(name, i).second)
      fail("tensor " + file_error::quoted(name) + " is in two of its files");
  }
  for (const std::string& name : promised) {
    if (find(name) == nullptr) {
      fail("tensor " + file_error::quoted(name) +
           " is listed by model.safetensors.index.json and in none of its files; download "
           "them again");
    }
  }
}

const json& Checkpoint::config() const { return contents_->config; }
const std::vector<StoredTensor>& Checkpoint::tensors() const { return contents_->tensors; }

const StoredTensor* Checkpoint::find(std::string_view name) const {
  const auto found = contents_->by_name.find(name);
  return found == contents_->by_name.end() ? nullptr : &contents_->tensors[found->second];
}

std::string Checkpoint::read_file(std::string_view name) const {
  const fs::path path = folder_ / name;
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  if (error) return "";
  // read_whole_file() allocates a buffer as large as its limit, so the file's own size is the limit.
  return read_whole_file(path, static_cast<size_t>(std::min<uintmax_t>(size, kMaxSmallFile)));
}

json Checkpoint::read_json(std::string_view name) const {
  const std::string text = read_file(name);
  if (text.empty()) return nullptr;
  json value = parsed_json(text);
  if (value.is_discarded())
    fail(std::string(name) + " is not JSON, or nests deeper than 64 levels; download it again");
  return value;
}

}  // namespace hearth::convert
