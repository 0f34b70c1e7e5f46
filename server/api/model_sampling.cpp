// See the header.
#include "server/api/model_sampling.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "config/suggest.h"

namespace hearth {
namespace {

/// The values that a family's authors recommend. The others are those of SamplingParams.
struct Family {
  std::string_view name;  // the beginning of general.basename or general.name, letters and digits only
  float temperature;
  float top_p;
  int top_k;
  float repetition_penalty = 1;
};

// From the models' generation_config.json on the hub; SmolLM2's from its model card, to which a penalty is
// added: without it, 26 of 40 answers of the 135M model about the capital of France named Paris, with it 37.
// The first match counts.
constexpr auto kFamilies = std::to_array<Family>({
    {"smollm2", 0.2F, 0.9F, 0, 1.1F},
    {"smollm3", 0.6F, 0.95F, 0},
    {"qwen3coder", 0.7F, 0.8F, 20},
    {"qwen3", 0.6F, 0.95F, 20},
    {"qwq", 0.6F, 0.95F, 40},
    {"qwen25", 0.7F, 0.8F, 20},
    {"qwen2", 0.7F, 0.8F, 20},
    {"gemma4", 1.0F, 0.95F, 64},
    {"gemma3", 1.0F, 0.95F, 64},
    {"metallama3", 0.6F, 0.9F, 0},
    {"llama3", 0.6F, 0.9F, 0},
    {"deepseekr1", 0.6F, 0.95F, 0},
});

std::string name_of(const Json& keys, const char* key) {
  const auto found = keys.find(key);
  return found != keys.end() && found->is_string() ? letters_and_digits(found->get<std::string>()) : "";
}

/// Sets the value if the key has a number from `least` to `most`.
template <typename T>
bool take(const Json& keys, const char* key, double least, double most, T& value) {
  const auto found = keys.find(key);
  if (found == keys.end() || !found->is_number()) return false;
  const double number = found->get<double>();
  if (!(number >= least && number <= most)) return false;
  value = static_cast<T>(number);
  return true;
}

bool take_from_file(const Json& keys, SamplingParams& sampling) {
  bool found = take(keys, "general.sampling.temp", 0, 2, sampling.temperature);
  found |= take(keys, "general.sampling.top_k", 0, 1'000'000, sampling.top_k);
  found |= take(keys, "general.sampling.top_p", 0.01, 1, sampling.top_p);
  found |= take(keys, "general.sampling.min_p", 0, 0.99, sampling.min_p);
  found |= take(keys, "general.sampling.penalty_repeat", 0.5, 2, sampling.repetition_penalty);
  found |= take(keys, "general.sampling.penalty_last_n", -1, 1'000'000, sampling.repetition_last_n);
  return found;
}

}  // namespace

std::optional<SamplingParams> model_sampling(const Json& keys) {
  SamplingParams sampling;
  if (take_from_file(keys, sampling)) return sampling;
  for (const char* const key : {"general.basename", "general.name"}) {
    const std::string name = name_of(keys, key);
    const auto family =
        std::ranges::find_if(kFamilies, [&name](const Family& one) { return name.starts_with(one.name); });
    if (family == kFamilies.end()) continue;
    sampling.temperature = family->temperature;
    sampling.top_p = family->top_p;
    sampling.top_k = family->top_k;
    sampling.repetition_penalty = family->repetition_penalty;
    return sampling;
  }
  return std::nullopt;
}

}  // namespace hearth
