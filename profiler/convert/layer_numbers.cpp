// See the header.
#include "profiler/convert/layer_numbers.h"

#include <string>
#include <utility>
#include <vector>

#include "kernels/base/file_error.h"
#include "profiler/convert/row_reader.h"

namespace hearth::convert {
namespace {

float number_in(const Checkpoint& checkpoint, const std::string& name) {
  const StoredTensor* tensor = checkpoint.find(name);
  if (tensor == nullptr) {
    checkpoint.fail("tensor " + file_error::quoted(name) +
                    " is missing, expected one number for each layer; download all files of the model");
  }
  const bool readable = tensor->type == ElementType::kF32 || tensor->type == ElementType::kF16 ||
                        tensor->type == ElementType::kBF16 || tensor->type == ElementType::kF64;
  if (tensor->n_elements() != 1 || !readable) {
    checkpoint.fail("tensor " + file_error::quoted(name) + " holds " + std::to_string(tensor->n_elements()) +
                    " numbers of type " + tensor->type_name +
                    ", expected one in F32, F16, BF16 or F64; such models do not run yet");
  }
  RowView view;
  view.source = tensor;
  view.n_rows = view.n_cols = 1;
  view.first_at = [](int64_t) { return 0; };
  float number = 0;
  read_row(view, 0, &number);
  return number;
}

}  // namespace

void add_layer_numbers(const Checkpoint& checkpoint, const Config& config, const Family& family,
                       KeyList& keys) {
  for (const Rule& rule : family.rules) {
    if (rule.how != Rearrange::kNumber) continue;
    std::vector<float> numbers;
    for (int64_t i = 0; i < config.n_layers(); ++i) {
      numbers.push_back(
          number_in(checkpoint, "model.layers." + std::to_string(i) + "." + std::string(rule.from)));
    }
    keys.set(std::string(rule.to), std::move(numbers));
  }
}

}  // namespace hearth::convert
