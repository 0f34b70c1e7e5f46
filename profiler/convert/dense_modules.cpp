// See the header.
#include "profiler/convert/dense_modules.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "kernels/base/file_error.h"

namespace hearth::convert {
namespace {

using nlohmann::json;

constexpr const char* kWeight = "linear.weight";
constexpr size_t kFirstNumber = 2, kMostModules = 2;  // dense_2 and dense_3

}  // namespace

DenseModules::DenseModules(const Checkpoint& checkpoint) {
  const json modules = checkpoint.read_json("modules.json");
  for (size_t i = 0; modules.is_array() && i < modules.size(); ++i) {
    const json& module = modules[i];
    if (!module.is_object() || !module.value("type", "").ends_with("Dense")) continue;
    const std::string path = module.value("path", "");
    if (path.empty() || path.find("..") != std::string::npos || path.starts_with('/'))
      checkpoint.fail("modules.json has the path " + file_error::quoted(path) + ", expected a folder in it");
    auto opened = std::make_unique<const Checkpoint>(checkpoint.folder() / path);
    const StoredTensor* weight = opened->find(kWeight);
    const bool is_plain = opened->tensors().size() == 1 && weight != nullptr && weight->shape.size() == 2 &&
                          weight->n_elements() > 0 && weight->type != ElementType::kOther &&
                          weight->type != ElementType::kU8 && weight->type != ElementType::kF8E4M3;
    const std::string activation = opened->config().value("activation_function", "");
    if (!is_plain || !(activation.empty() || activation.ends_with("Identity"))) {
      opened->fail(
          "the dense layer is not one matrix of floats without bias and activation; such models do not run "
          "yet");
    }
    modules_.push_back(std::move(opened));
  }
  if (modules_.size() == 1 || modules_.size() > kMostModules) {
    checkpoint.fail("modules.json has " + std::to_string(modules_.size()) +
                    " dense layers, expected two or none; such models do not run yet");
  }
}

void DenseModules::add(DType type, std::vector<PlannedTensor>& plan, KeyList& keys) const {
  for (size_t i = 0; i < modules_.size(); ++i) {
    const StoredTensor& weight = *modules_[i]->find(kWeight);
    const int64_t n_rows = weight.shape[0], n_cols = weight.shape[1];
    const std::string name = "dense_" + std::to_string(kFirstNumber + i);
    keys.count(name + "_feat_in", n_cols);
    keys.count(name + "_feat_out", n_rows);
    RowView view;
    view.source = &weight;
    view.n_rows = n_rows;
    view.n_cols = n_cols;
    view.first_at = [n_cols](int64_t row) { return row * n_cols; };
    PlannedTensor tensor;
    tensor.name = name + ".weight";
    tensor.type = n_cols % dtype_info(type).block_elems == 0 ? type : DType::kF16;
    tensor.shape = {n_cols, n_rows};
    tensor.parts.push_back(std::move(view));
    plan.push_back(std::move(tensor));
  }
}

}  // namespace hearth::convert
