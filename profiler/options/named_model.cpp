// Implements named_model().
#include "profiler/options/named_model.h"

#include <optional>
#include <stdexcept>
#include <vector>

#include "profiler/options/command_line.h"

namespace hearth {

PlannedModel named_model(const std::string& file, const std::string& ffn_activation,
                         const std::string& shape_name, const std::string& type_name,
                         const std::string& command) {
  if (file.empty() == shape_name.empty()) {
    throw std::runtime_error(
        command + " needs --model FILE or --shape NAME, one of the two; shapes: " + shape_names() + ".");
  }
  if (!file.empty()) return model_of_file(file, ffn_activation);
  const ModelShape* shape = find_shape(shape_name);
  if (shape == nullptr) {
    std::vector<std::string> names;
    for (const ModelShape& known : model_shapes()) {
      names.emplace_back(known.name);
      if (known.architecture == "llama") names.push_back("llama-" + names.back());
    }
    throw std::runtime_error("There is no shape \"" + shape_name + "\", expected one of " + shape_names() +
                             "." + suggestion(shape_name, names));
  }
  const std::optional<DType> type = dtype_of_name(type_name);
  if (!type) {
    std::string known;
    for (const std::string& name : dtype_names()) known += (known.empty() ? "" : ", ") + name;
    throw std::runtime_error("There is no type \"" + type_name + "\", expected one of " + known + "." +
                             suggestion(type_name, dtype_names()));
  }
  return model_of_shape(*shape, *type, ffn_activation);
}

}  // namespace hearth
