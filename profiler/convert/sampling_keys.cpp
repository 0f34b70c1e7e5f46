// See the header.
#include "profiler/convert/sampling_keys.h"

#include <cstdint>
#include <nlohmann/json.hpp>

namespace hearth::convert {
namespace {

using nlohmann::json;

struct SamplingField {
  const char* field;  // in generation_config.json
  const char* key;
  double least, most;
  bool is_count;  // an integer
};

// llama.cpp's keys. The ranges are those of requests to the server.
constexpr SamplingField kSamplingFields[] = {
    {"temperature", "general.sampling.temp", 0, 2, false},
    {"top_k", "general.sampling.top_k", 0, 1'000'000, true},
    {"top_p", "general.sampling.top_p", 0.01, 1, false},
    {"min_p", "general.sampling.min_p", 0, 0.99, false},
    {"repetition_penalty", "general.sampling.penalty_repeat", 0.5, 2, false},
};

}  // namespace

void add_sampling_keys(const Checkpoint& checkpoint, KeyList& keys) {
  const json generation = checkpoint.read_json("generation_config.json");
  if (!generation.is_object()) return;
  for (const auto& [field, key, least, most, is_count] : kSamplingFields) {
    const auto found = generation.find(field);
    if (found == generation.end() || !(is_count ? found->is_number_integer() : found->is_number())) continue;
    const double value = found->get<double>();
    if (!(value >= least && value <= most)) continue;
    if (is_count) {
      keys.set(key, static_cast<int32_t>(value));
    } else {
      keys.set(key, static_cast<float>(value));
    }
  }
  // transformers penalizes the tokens of the whole text; llama.cpp's default are the last 64.
  if (keys.find("general.sampling.penalty_repeat") != nullptr)
    keys.set("general.sampling.penalty_last_n", int32_t{-1});
}

}  // namespace hearth::convert
