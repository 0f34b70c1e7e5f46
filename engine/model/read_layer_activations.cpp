// See the header.
#include "engine/model/read_layer_activations.h"

#include <cmath>
#include <string>
#include <vector>

#include "kernels/base/file_error.h"

namespace hearth {
namespace {

/// Returns the numbers of the first n_layers layers. `name`: the whole key. Throws ModelFileError unless the
/// file has it, with finite numbers from `low` to `high`.
std::vector<float> numbers_of(const SpecKeys& keys, const std::string& name, int n_layers, int n_blocks,
                              double low, double high) {
  const ModelFile& file = keys.file();
  const auto fail = [&](const std::string& found) {
    file_error::fail(keys.file_label(), "key \"" + name + "\" is " + found + ", expected " +
                                            std::to_string(n_blocks) + " numbers from " +
                                            std::to_string(low) + " to " + std::to_string(high) +
                                            "; the file is damaged");
  };
  std::vector<float> numbers;
  if (file.describe_key(name).starts_with("array")) {
    numbers = file.find_floats(name).value();
    if (static_cast<int>(numbers.size()) != n_blocks) fail(std::to_string(numbers.size()) + " numbers");
  } else {
    const auto one = file.find_float(name);
    if (!one) fail("absent");
    numbers.assign(static_cast<size_t>(n_blocks), static_cast<float>(*one));
  }
  numbers.resize(static_cast<size_t>(n_layers));
  for (size_t i = 0; i < numbers.size(); ++i) {
    const double number = double{numbers[i]};
    if (std::isfinite(number) && number >= low && number <= high) continue;
    fail(std::to_string(number) + " in layer " + std::to_string(i));
  }
  return numbers;
}

/// ln(1 + e^x).
float softplus(float x) { return static_cast<float>(std::log1p(std::exp(double{x}))); }

/// Files store numbers a_p and a_n, from which alpha_p = softplus(a_p) and alpha_n = softplus(a_n) + beta,
/// under keys without the architecture's prefix.
void read_xielu(const SpecKeys& keys, int n_blocks, ModelSpec& spec) {
  constexpr double kMost = 80.0;
  const auto numbers = [&](const char* name, double low, double high) {
    return numbers_of(keys, std::string("xielu.") + name, spec.n_layers, n_blocks, low, high);
  };
  const std::vector<float> alpha_p = numbers("alpha_p", -kMost, kMost),
                           alpha_n = numbers("alpha_n", -kMost, kMost), beta = numbers("beta", -kMost, kMost),
                           eps = numbers("eps", -1.0, -1e-30);
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    spec.layers[i].ffn_activation = FfnActivation{.kind = Activation::kXielu,
                                                  .xielu = {.alpha_p = softplus(alpha_p[i]),
                                                            .alpha_n = beta[i] + softplus(alpha_n[i]),
                                                            .beta = beta[i],
                                                            .eps = eps[i]}};
  }
}

/// A limit of 0 means that the layer has none.
void read_clamps(const SpecKeys& keys, const char* key, int n_blocks, ModelSpec& spec,
                 std::optional<FfnActivation> LayerSpec::*activation) {
  if (!keys.has(key)) return;
  const std::string name = std::string(spec.arch.name) + "." + key;
  const std::vector<float> limits = numbers_of(keys, name, spec.n_layers, n_blocks, 0.0, 1e6);
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    if (limits[i] == 0.0f) continue;
    spec.layers[i].*activation = FfnActivation{.kind = Activation::kSwigluClamped, .limit = limits[i]};
  }
}

/// The file has the deviations of a normal distribution, of which minus infinity leaves nothing out.
void read_gate_cuts(const SpecKeys& keys, int n_blocks, ModelSpec& spec) {
  constexpr const char* kKey = "activation_sparsity_scale";
  constexpr float kMost = 10.0f;
  if (!keys.has(kKey)) return;
  const std::string name = std::string(spec.arch.name) + "." + kKey;
  const ModelFile& file = keys.file();
  std::vector<float> cuts;
  if (file.describe_key(name).starts_with("array")) cuts = file.find_floats(name).value();
  if (static_cast<int>(cuts.size()) != n_blocks) {
    keys.fail(kKey, std::to_string(cuts.size()) + " numbers",
              "one for each of " + std::to_string(n_blocks) + " layers");
  }
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    if (cuts[i] == -INFINITY) continue;
    if (!(std::abs(cuts[i]) <= kMost)) {
      keys.fail(kKey, std::to_string(cuts[i]) + " in layer " + std::to_string(i),
                "minus infinity, or a number from -10 to 10");
    }
    spec.layers[i].gate_cut = cuts[i];
  }
}

}  // namespace

void read_layer_activations(const SpecKeys& keys, int n_blocks, ModelSpec& spec) {
  if (spec.arch.cuts_gates) read_gate_cuts(keys, n_blocks, spec);
  if (spec.activation.kind == Activation::kXielu) read_xielu(keys, n_blocks, spec);
  if (!spec.arch.clamps_swiglu) return;
  read_clamps(keys, "swiglu_clamp_exp", n_blocks, spec, &LayerSpec::expert_activation);
  read_clamps(keys, "swiglu_clamp_shexp", n_blocks, spec, &LayerSpec::ffn_activation);
}

}  // namespace hearth
