// See the header.
#include "engine/model/ffn_activation.h"

#include <array>
#include <charconv>
#include <cmath>
#include <stdexcept>

#include "kernels/base/file_error.h"

namespace hearth {
namespace {

constexpr std::string_view kActivationKey = "hearth.ffn_activation";
constexpr std::string_view kNames =
    "relu, drelu, fatrelu:T (T a number from 0 to 1000), relu2, silu, gelu or swiglu-oai";
constexpr std::string_view kFatRelu = "fatrelu:";
constexpr float kMaxThreshold = 1000.0f;

struct Named {
  std::string_view name;
  Activation kind;
};

// Some activations have several names; messages use the first one.
constexpr std::array<Named, 7> kNamed = {{{"silu", Activation::kSilu},
                                          {"gelu", Activation::kGelu},
                                          {"gelu", Activation::kGeluErf},
                                          {"relu", Activation::kRelu},
                                          {"relu2", Activation::kRelu2},
                                          {"drelu", Activation::kDRelu},
                                          {"swiglu-oai", Activation::kSwigluOai}}};

[[noreturn]] void contradict(const ModelFile& file, const std::string& what) {
  file_error::fail(file_error::file_label(file.path().string()), what);
}

/// Two kinds of gelu share the name gelu. If the activation is gelu and the architecture has the other kind
/// (kGeluErf), returns the architecture's activation. Otherwise returns the activation unchanged.
FfnActivation as_architecture_has_it(FfnActivation activation, const Architecture& arch) {
  const bool own_gelu = activation.kind == Activation::kGelu && arch.activation.kind == Activation::kGeluErf;
  return own_gelu ? arch.activation : activation;
}

/// Throws if a model of this architecture cannot have the activation. source: where the activation was set.
void check_fits(const ModelFile& file, const Architecture& arch, FfnActivation activation,
                const std::string& source) {
  const std::string said = source + " says the FFN's activation is " + ffn_activation_name(activation);
  if (activation.kind == Activation::kDRelu && !arch.gated) {
    contradict(file, said + ", which multiplies two relus, but architecture " + std::string(arch.name) +
                         " has no gate beside up; say relu");
  }
  if (activation.kind == Activation::kSwigluOai && !arch.gated) {
    contradict(file, said + ", which multiplies gate and up, but architecture " + std::string(arch.name) +
                         " has no gate beside up; leave it out");
  }
  if (file.is_powerinfer() && !activation.has_zeros()) {
    contradict(file, said +
                         ", but the file is PowerInfer's (magic PWRI), whose models skip neurons that a relu "
                         "makes zero; say relu, drelu or fatrelu:T, or use the model's plain GGUF version");
  }
  if (arch.activation.kind == Activation::kDRelu && activation != arch.activation) {
    contradict(file, said + ", but models of architecture " + std::string(arch.name) +
                         " have drelu; leave it out or say drelu");
  }
  if (arch.activation.kind == Activation::kXielu) {
    contradict(file, said + ", but models of architecture " + std::string(arch.name) +
                         " have xielu, with numbers from the file; leave it out");
  }
}

/// Returns the activation of models whose files may name another one than the architecture's.
FfnActivation named_activation(const ModelFile& file, const Architecture& arch) {
  const std::string key = std::string(arch.name) + ".hidden_activation";
  const std::optional<std::string_view> name = file.find_string(key);
  if (!arch.names_activation || !name) return arch.activation;
  const std::optional<FfnActivation> named = parse_ffn_activation(*name);
  if (!named || (named->kind != Activation::kGelu && named->kind != Activation::kSilu)) {
    contradict(file, "key \"" + key + "\" is " + file_error::quoted(*name) + ", an activation of " +
                         std::string(arch.name) + " that Hearth does not know, expected gelu or silu");
  }
  return as_architecture_has_it(*named, arch);
}

}  // namespace

std::optional<FfnActivation> parse_ffn_activation(std::string_view name) {
  for (const Named& named : kNamed) {
    if (named.name == name) return FfnActivation{named.kind};
  }
  if (!name.starts_with(kFatRelu)) return std::nullopt;
  const std::string_view number = name.substr(kFatRelu.size());
  float threshold = 0;
  const std::from_chars_result read =
      std::from_chars(number.data(), number.data() + number.size(), threshold);
  const bool whole = read.ec == std::errc() && read.ptr == number.data() + number.size();
  // NaN fails the comparisons.
  if (!whole || !(threshold >= 0.0f && threshold <= kMaxThreshold)) return std::nullopt;
  return FfnActivation{Activation::kRelu, std::abs(threshold)};  // avoid a negative zero
}

std::string ffn_activation_name(FfnActivation activation) {
  if (activation.kind == Activation::kXielu) return "xielu";  // a name that no one can choose
  if (activation.threshold > 0.0f) {
    std::array<char, 32> text;
    const std::to_chars_result end =
        std::to_chars(text.data(), text.data() + text.size(), activation.threshold);
    return std::string(kFatRelu) + std::string(text.data(), end.ptr);
  }
  for (const Named& named : kNamed) {
    if (named.kind == activation.kind) return std::string(named.name);
  }
  return {};  // every kind is in the table
}

FfnActivation decide_ffn_activation(const ModelFile& file, const Architecture& arch,
                                    std::string_view option) {
  std::optional<FfnActivation> by_option, by_key;
  if (!option.empty()) {
    by_option = parse_ffn_activation(option);
    if (!by_option) {
      throw std::invalid_argument("FFN activation " + file_error::quoted(option) + " is unknown; give " +
                                  std::string(kNames) + ".");
    }
    by_option = as_architecture_has_it(*by_option, arch);
    check_fits(file, arch, *by_option, "--ffn-activation");
  }
  if (const std::optional<std::string_view> name = file.find_string(kActivationKey)) {
    by_key = parse_ffn_activation(*name);
    if (!by_key) {
      contradict(file, "key \"" + std::string(kActivationKey) + "\" is " + file_error::quoted(*name) +
                           ", expected " + std::string(kNames) +
                           "; correct the key, or convert the model again");
    }
    by_key = as_architecture_has_it(*by_key, arch);
    check_fits(file, arch, *by_key, "key \"" + std::string(kActivationKey) + "\"");
  }
  if (by_option && by_key && *by_option != *by_key) {
    contradict(file, "--ffn-activation says " + ffn_activation_name(*by_option) + ", but key \"" +
                         std::string(kActivationKey) + "\" says " + ffn_activation_name(*by_key) +
                         "; leave the option out to run the model as its file says, or correct the key");
  }
  const FfnActivation fallback = file.is_powerinfer() ? arch.powerinfer_activation.value_or(arch.activation)
                                                      : named_activation(file, arch);
  return by_option ? *by_option : by_key.value_or(fallback);
}

}  // namespace hearth
